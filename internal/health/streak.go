package health

import "fairlead/internal/model"

// streak turns the results of checks into verdicts. Results that contradict
// the verdict are counted; one that agrees starts the count anew.
type streak struct{ against int }

// next returns the verdict after a check. The first completed check makes the
// first verdict alone, whatever the monitor says.
func (s *streak) next(v Verdict, passed bool, m *model.Monitor) Verdict {
	want, need := Unhealthy, m.ConsecutiveDown
	if passed {
		want, need = Healthy, m.ConsecutiveUp
	}
	if v != want {
		s.against++
		if v != Healthy && v != Unhealthy || s.against >= need {
			v, s.against = want, 0
		}
		return v
	}
	s.against = 0
	return v
}
