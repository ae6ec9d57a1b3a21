package config

import (
	"fmt"

	"fairlead/internal/dnswire"
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

// parseRecord reads the data of a record as zone files have it.
func parseRecord(zone string, r *model.Record) error {
	origin, err := dnswire.ParseName(zone, dnswire.Root)
	if err != nil {
		return err
	}
	t, ok := dnswire.ParseType(r.Type)
	if !ok || t.Meta() {
		return fmt.Errorf("%s: no record has this type", r.Type)
	}
	_, err = dnswire.ParseRData(t, r.Content, origin)
	return err
}
