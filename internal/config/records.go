package config

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"fairlead/internal/model"
)

// checkRecords reads the content of every record the way the DNS plane will.
// The model has checked the common types in plainer words; what it found
// wrong is not said twice.
func checkRecords(c *model.Config, found []model.Problem) []model.Problem {
	known := map[string]bool{}
	for _, p := range found {
		known[p.Path] = known[p.Path] || !p.Warning
	}
	var problems []model.Problem
	for i := range c.Zones {
		z := &c.Zones[i]
		for j := range z.Records {
			r := &z.Records[j]
			at := model.Place{}.Key("zones").Item(i, z.Name).Key("records").Item(j, r.Name)
			content := at.Key("content")
			if r.Content == "" || known[content.Path] || known[at.Key("type").Path] || known[at.Key("name").Path] || known[fmt.Sprintf("zones[%d].name", i)] {
				continue
			}
			if err := parseRecord(z.Name, r); err != nil {
				problems = append(problems, model.Problem{
					Path: content.Path,
					Text: fmt.Sprintf("%s %s: not the data of a %s record: %v", content.Text, model.Show(r.Content), r.Type, err),
				})
			}
		}
	}
	return problems
}

// parseRecord reads a record as a line of the zone's file.
func parseRecord(zone string, r *model.Record) error {
	line := fmt.Sprintf("%s %d IN %s %s\n", r.Name, int64(r.TTL.Seconds()), r.Type, r.Content)
	p := dns.NewZoneParser(strings.NewReader(line), dns.Fqdn(zone), "")
	p.SetIncludeAllowed(false)
	rr, ok := p.Next()
	if err := p.Err(); err != nil {
		return fmt.Errorf("%s", plainDNS(err))
	}
	if !ok || dns.TypeToString[rr.Header().Rrtype] != r.Type {
		return fmt.Errorf("want one record")
	}
	if _, another := p.Next(); another || p.Err() != nil {
		return fmt.Errorf("want one record")
	}
	if _, err := dns.PackRR(rr, make([]byte, dns.MaxMsgSize), 0, nil, false); err != nil {
		return fmt.Errorf("%s", plainDNS(err))
	}
	return nil
}

// plainDNS is an error of the library without its name and its line, which is
// always the first.
func plainDNS(err error) string {
	s := strings.TrimPrefix(err.Error(), "dns: ")
	if cut := strings.Index(s, " at line: "); cut >= 0 {
		s = s[:cut]
	}
	return s
}
