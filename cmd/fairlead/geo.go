package main

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"fairlead/internal/config"
	"fairlead/internal/geo"
	"fairlead/internal/model"
)

type geoCmd struct {
	Config   string   `required:"" xor:"databases" short:"c" placeholder:"FILE" help:"Configuration file; its geo.databases are asked."`
	Database []string `required:"" xor:"databases" short:"d" sep:"none" placeholder:"FILE" help:"MMDB file that is asked, in place of a configuration; may be repeated."`
	Address  []string `arg:"" help:"IP addresses."`
}

// Help is shown by geo --help.
func (geoCmd) Help() string {
	return `Tells where addresses are, as rules and steering see it, and why: the database
that each fact is from, the first that has it, and the prefix all of whose
addresses have the same.

  fairlead geo -c lb.yaml 198.51.100.7 2001:db8::1
  fairlead geo -d country.mmdb -d asn.mmdb 198.51.100.7

The region comes from the country, and in Canada and the United States from the
subdivision.`
}

// Run tells where addresses are.
func (c *geoCmd) Run(s streams) error {
	var addrs []netip.Addr
	for _, text := range c.Address {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("%q: want an IP address", text)
		}
		addrs = append(addrs, a)
	}
	d, err := c.open()
	if err != nil {
		return err
	}
	for _, status := range d.Status() {
		fmt.Fprintf(s.out, "%s: %s, made %s, has %s\n", status.File, status.Type, status.Built.UTC().Format("2006-01-02"),
			strings.Join(status.Gives.Names(), ", "))
	}
	for _, a := range addrs {
		w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "\n%s\n", a)
		found := d.Find(a)
		writeFinding(w, &found)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// open opens the databases that are asked.
func (c *geoCmd) open() (*geo.Databases, error) {
	if c.Config == "" {
		return geo.Open(geo.Config{Files: c.Database})
	}
	doc, err := config.Load(c.Config)
	if err != nil {
		return nil, err
	}
	if len(doc.Config.Geo.Databases) == 0 {
		return nil, fmt.Errorf("%s: geo.databases: none: every client has the node's place", c.Config)
	}
	return openDatabases(doc)
}

// writeFinding writes a line for each fact.
func writeFinding(w io.Writer, f *geo.Finding) {
	p := &f.Place
	for _, source := range f.Sources {
		value := ""
		switch source.Fact {
		case geo.FactCountry:
			value = string(p.Country)
			if country := geo.FindCountry(p.Country); country != nil {
				value += ", " + country.Name
			}
		case geo.FactSubdivision:
			value = p.Subdivision.String()
		case geo.FactCoordinates:
			if p.HasCoordinates && !p.Middle {
				value = fmt.Sprintf("%.4f, %.4f", p.Latitude, p.Longitude)
			}
		case geo.FactASN:
			if p.ASN != 0 {
				value = fmt.Sprint(p.ASN)
			}
		case geo.FactSubdivisionName:
			value = f.Names[geo.NameSubdivision]
		case geo.FactCity:
			value = f.Names[geo.NameCity]
		case geo.FactOrganization:
			value = f.Names[geo.NameOrganization]
		}
		why := "by " + source.File + " for"
		if source.File == "" {
			value, why = "not known", "for"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s %s\n", strings.Join(source.Fact.Names(), ""), printable(value), why, source.Prefix)
	}
	if p.Region != "" {
		fmt.Fprintf(w, "  region\t%s, %s\t%s\n", p.Region, regionName(p.Region), regionBy(p))
	}
	if p.Middle {
		fmt.Fprintf(w, "  coordinates\t%.4f, %.4f\tthe middle of the country\n", p.Latitude, p.Longitude)
	}
	if !p.Located() {
		fmt.Fprintf(w, "  steering\tthe node's place\tneither country nor coordinates are known\n")
	}
}

// printable makes what a database has fit for a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd {
			return '?'
		}
		return r
	}, s)
}

func regionName(code model.Region) string {
	for _, r := range model.Regions {
		if r.Code == code {
			return r.Name
		}
	}
	return ""
}

// regionBy says what the region comes from.
func regionBy(p *geo.Place) string {
	if p.Country != "US" && p.Country != "CA" {
		return "by the country"
	}
	if p.Subdivision == (geo.Subdivision{}) {
		return "by the country, as the subdivision is not known"
	}
	return "by the subdivision"
}
