package plan

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"fairlead/internal/dnswire"
	"fairlead/internal/model"
	"fairlead/internal/zone"
)

// Zone is a compiled zone.
type Zone struct {
	*zone.Zone
	Config *model.Zone
	// Steered are the load balancers that answer for names of the zone: the one
	// of a node is Steered[node.Steered-1].
	Steered []*LoadBalancer
}

// Zones returns what is wrong with the zones of c, as a zone checker would. The
// files that it names have been found readable.
func Zones(c *model.Config) (problems []model.Problem) {
	steered := steeredNames(c)
	var built []*zone.Zone
	for i := range c.Zones {
		at := model.Place{}.Key("zones").Item(i, c.Zones[i].Name)
		z, found := checkZone(steered, at, &c.Zones[i])
		problems = append(problems, found...)
		if z != nil {
			built = append(built, z)
			problems = append(problems, checkSteered(c, z, steered[z.Origin])...)
		}
	}
	if len(built) == len(c.Zones) {
		problems = append(problems, checkEndpoints(c, zone.NewZones(built))...)
	}
	return problems
}

func checkZone(steered map[dnswire.Name][]steeredName, at model.Place, m *model.Zone) (z *zone.Zone, problems []model.Problem) {
	in, places, errs := zoneInput(m, at)
	if len(errs) > 0 {
		return nil, errs
	}
	in.Steered = namesOf(steered[in.Origin])
	z, found := zone.Build(in)
	for _, p := range found {
		out := model.Problem{Path: at.Path, Text: at.Text + ": " + p.Text, Warning: p.Warning}
		if p.Record >= 0 {
			out.Path = places[p.Record].Path
			if m.File != "" {
				r := in.Records[p.Record]
				out.File, out.Line, out.Column = m.File, r.Line, r.Column
			}
		}
		problems = append(problems, out)
	}
	if z != nil && m.DNSSEC && m.File != "" {
		if validity, longest := m.Signing().SignatureValidity, time.Duration(z.LongestTTL)*time.Second; longest > validity/2 {
			problems = append(problems, model.Problem{Path: at.Key("file").Path, Text: fmt.Sprintf("%s: a TTL of %s: want at most half of signature_validity (%s): caches keep signatures for as long",
				at.Key("file").Text, model.Show(longest), model.Show(validity))})
		}
	}
	return z, problems
}

// zoneInput reads the records of a zone. places are where the records stand in
// the configuration.
func zoneInput(m *model.Zone, at model.Place) (in zone.Input, places []model.Place, problems []model.Problem) {
	origin, err := dnswire.ParseName(model.CanonicalHost(m.Name), dnswire.Root)
	if err != nil {
		return in, nil, []model.Problem{{Path: at.Key("name").Path, Text: fmt.Sprintf("%s: %v", at.Key("name").Text, err)}}
	}
	in.Origin, in.Signed = origin, m.DNSSEC
	if m.File == "" {
		in.Records, places, problems = declaredRecords(m, origin, at)
		return in, places, problems
	}
	at = at.Key("file")
	text, err := readZoneFile(m.File)
	if err != nil {
		return in, nil, []model.Problem{{Path: at.Path, Text: fmt.Sprintf("%s %s: %v", at.Text, model.Show(m.File), err)}}
	}
	records, errs := dnswire.ParseZone(text, origin)
	for _, e := range errs {
		problems = append(problems, model.Problem{
			Path: at.Path, Text: fmt.Sprintf("zone %q: %v", m.Name, e.Err), File: m.File, Line: e.Line, Column: e.Column,
		})
	}
	in.Records, places = records, make([]model.Place, len(records))
	for i := range places {
		places[i] = at
	}
	return in, places, problems
}

func readZoneFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, model.MaxZoneFile+1))
	if err == nil && len(text) > model.MaxZoneFile {
		err = fmt.Errorf("want a zone file of at most %d bytes", model.MaxZoneFile)
	}
	return text, err
}

// declaredRecords makes the records of a zone that has no file.
func declaredRecords(m *model.Zone, origin dnswire.Name, at model.Place) (records []dnswire.Record, places []model.Place, problems []model.Problem) {
	add := func(at model.Place, r dnswire.Record, err error) {
		if err != nil {
			problems = append(problems, model.Problem{Path: at.Path, Text: fmt.Sprintf("%s: %v", at.Text, err)})
			return
		}
		records, places = append(records, r), append(places, at)
	}
	soa, err := soaRecord(m, origin)
	add(at.Key("soa"), soa, err)
	for i, name := range m.Nameservers {
		server, err := dnswire.ParseName(model.CanonicalHost(name), dnswire.Root)
		add(at.Key("nameservers").Item(i, ""), dnswire.Record{Owner: origin, Type: dnswire.TypeNS, TTL: seconds(m.SOA.TTL), Data: []byte(server)}, err)
	}
	for i := range m.Records {
		r := &m.Records[i]
		out, err := declaredRecord(r, origin)
		add(at.Key("records").Item(i, r.Name), out, err)
	}
	return records, places, problems
}

func declaredRecord(r *model.Record, origin dnswire.Name) (dnswire.Record, error) {
	out := dnswire.Record{TTL: seconds(r.TTL)}
	var ok bool
	if out.Type, ok = dnswire.ParseType(r.Type); !ok {
		return out, fmt.Errorf("type %s is not known", model.Show(r.Type))
	}
	var err error
	if out.Owner, err = dnswire.ParseName(r.Name, origin); err != nil {
		return out, err
	}
	out.Data, err = dnswire.ParseRData(out.Type, r.Content, origin)
	return out, err
}

// soaRecord makes the SOA record of a zone that has no file. Its serial is set
// when the zone is built.
func soaRecord(m *model.Zone, origin dnswire.Name) (r dnswire.Record, err error) {
	primary, contact := m.SOA.Primary, m.SOA.Contact
	if primary == "" && len(m.Nameservers) > 0 {
		primary = m.Nameservers[0]
	}
	if contact == "" {
		contact = "hostmaster@" + m.Name
	}
	soa := dnswire.SOA{
		Refresh: seconds(m.SOA.Refresh), Retry: seconds(m.SOA.Retry),
		Expire: seconds(m.SOA.Expire), Minimum: seconds(m.SOA.Minimum),
	}
	if soa.Primary, err = dnswire.ParseName(model.CanonicalHost(primary), dnswire.Root); err != nil {
		return r, err
	}
	local, domain, _ := strings.Cut(contact, "@")
	if soa.Contact, err = dnswire.ParseName(strings.ReplaceAll(local, ".", `\.`)+"."+model.CanonicalHost(domain), dnswire.Root); err != nil {
		return r, err
	}
	return dnswire.Record{Owner: origin, Type: dnswire.TypeSOA, TTL: seconds(m.SOA.TTL), Data: soa.Data()}, nil
}

func seconds(d time.Duration) uint32 { return uint32(d / time.Second) }

// zones compiles the zones. One that has not changed is taken from the plan
// before.
func (k *compiler) zones(c *model.Config, before *Plan) error {
	k.steered = steeredNames(c)
	old := make(map[string]*Zone)
	if before != nil {
		for _, z := range before.Zones {
			old[z.Name] = z
		}
	}
	built := make([]*zone.Zone, 0, len(c.Zones))
	for i := range c.Zones {
		m := &c.Zones[i]
		z, err := k.zone(m, old)
		if err != nil {
			return fmt.Errorf("zone %q: %w", m.Name, err)
		}
		k.plan.Zones = append(k.plan.Zones, z)
		built = append(built, z.Zone)
	}
	k.plan.Authority = zone.NewZones(built)
	return nil
}

func (k *compiler) zone(m *model.Zone, old map[string]*Zone) (*Zone, error) {
	in, _, problems := zoneInput(m, model.Place{})
	if len(problems) > 0 {
		return nil, errors.New(problems[0].Text)
	}
	in.Steered = namesOf(k.steered[in.Origin])
	z := &Zone{Config: m}
	content := zone.Content(in)
	wanted, declared := uint32(k.now.Unix()), m.File != ""
	if declared {
		for _, r := range in.Records {
			if r.Type == dnswire.TypeSOA {
				wanted = dnswire.SOAOf(r.Data).Serial
			}
		}
	}
	name := strings.TrimSuffix(in.Origin.String(), ".")
	in.Serial = wanted
	if k.tables.Serials != nil {
		in.Serial = k.tables.Serials.Next(name, content, wanted, declared)
	}
	if was := old[name]; was != nil && was.Content == content && was.SOA.Serial == in.Serial && was.Config.DNSSEC == m.DNSSEC {
		z.Zone = was.Zone
		return z, nil
	}
	var found []zone.Problem
	if z.Zone, found = zone.Build(in); z.Zone == nil {
		for _, p := range found {
			if !p.Warning {
				return nil, errors.New(p.Text)
			}
		}
	}
	return z, nil
}
