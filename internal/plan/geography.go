package plan

import (
	"fmt"

	"fairlead/internal/geo"
	"fairlead/internal/model"
	"fairlead/internal/rules"
)

// factOf says what of a database a field is made of.
var factOf = map[rules.Field]struct {
	fact geo.Facts
	what string
}{
	rules.FieldClientCountry:     {geo.FactCountry, "countries"},
	rules.FieldClientContinent:   {geo.FactCountry, "countries"},
	rules.FieldClientRegion:      {geo.FactSubdivisionName, "names of subdivisions"},
	rules.FieldClientSubdivision: {geo.FactSubdivision, "codes of subdivisions"},
	rules.FieldClientASN:         {geo.FactASN, "AS numbers"},
}

// Geography warns of what a valid c goes by and its databases, which have some
// facts, do not tell of any client.
func Geography(c *model.Config, has geo.Facts) (problems []model.Problem) {
	warn := func(at model.Place, format string, values ...any) {
		problems = append(problems, model.Problem{Path: at.Path, Text: at.Text + ": " + fmt.Sprintf(format, values...), Warning: true})
	}
	for i := range c.LoadBalancers {
		b := &c.LoadBalancers[i]
		at := model.Place{}.Key("load_balancers").Item(i, b.Name)
		for j := range b.Rules {
			program, err := rules.Compile(b.Rules[j].Condition, ruleMode(b))
			if err != nil {
				continue // told by Conditions
			}
			for _, f := range program.Fields() {
				if need, ok := factOf[f]; ok && has&need.fact == 0 {
					warn(at.Key("rules").Item(j, b.Rules[j].Name).Key("condition"), "%s is not known of any client: none of geo.databases has %s", f, need.what)
				}
			}
		}
		if len(c.Geo.Databases) == 0 {
			continue // every client has the node's place, as is declared
		}
		switch policy := b.Policy(); {
		case policy == model.SteerGeo && has&geo.FactCountry == 0 && len(b.CountryPools)+len(b.RegionPools) > 0:
			warn(at.Key("steering_policy"), "geo goes by the node's country and region for every client: none of geo.databases has countries")
		case policy == model.SteerProximity && has&(geo.FactCountry|geo.FactCoordinates) == 0:
			warn(at.Key("steering_policy"), "proximity goes by the node's place for every client: none of geo.databases has coordinates or countries")
		}
	}
	return problems
}
