package plan

import (
	"errors"
	"fmt"

	"fairlead/internal/model"
	"fairlead/internal/rules"
)

// Conditions returns what is wrong with the conditions of rules, with the place
// in the expression, and, as warnings, what is true or false in them for good.
func Conditions(c *model.Config) (problems []model.Problem) {
	for i := range c.LoadBalancers {
		b := &c.LoadBalancers[i]
		mode := rules.ModeDNS
		if b.Proxied {
			mode = rules.ModeHTTP
		}
		for j := range b.Rules {
			r := &b.Rules[j]
			at := model.Place{}.Key("load_balancers").Item(i, b.Name).Key("rules").Item(j, r.Name).Key("condition")
			add := func(p rules.Position, text string, warning bool) {
				place := fmt.Sprintf("column %d", p.Column)
				if p.Line > 1 {
					place = fmt.Sprintf("line %d, %s", p.Line, place)
				}
				problems = append(problems, model.Problem{Path: at.Path, Text: fmt.Sprintf("%s: %s: %s", at.Text, place, text), Warning: warning})
			}
			program, err := rules.Compile(r.Condition, mode)
			var e *rules.Error
			switch {
			case errors.As(err, &e):
				add(e.Position, e.Message, false)
			case err == nil:
				for _, n := range program.Notes() {
					add(n.Position, n.Message, true)
				}
			}
		}
	}
	return problems
}
