package plan

import (
	"fairlead/internal/model"
	"fairlead/internal/rules"
)

// Conditions returns what is wrong with the conditions of rules, with the place
// in the expression, and, as warnings, what is true or false in them for good.
func Conditions(c *model.Config) (problems []model.Problem) {
	for i := range c.LoadBalancers {
		b := &c.LoadBalancers[i]
		for j := range b.Rules {
			at := model.Place{}.Key("load_balancers").Item(i, b.Name).Key("rules").Item(j, b.Rules[j].Name).Key("condition")
			program, err := rules.Compile(b.Rules[j].Condition, ruleMode(b))
			if err != nil {
				problems = append(problems, model.Problem{Path: at.Path, Text: at.Text + ": " + err.Error()})
				continue
			}
			for _, note := range program.Notes() {
				problems = append(problems, model.Problem{Path: at.Path, Text: at.Text + ": " + note.String(), Warning: true})
			}
		}
	}
	return problems
}
