package config

import (
	"fmt"
	"strings"
	"testing"
)

// Numbers are those of YAML's core schema in decimal.
func TestNumbers(t *testing.T) {
	const file = "pools: [{name: p, endpoints: [{name: a, address: x.org, weight: %s}]}]"
	for text, want := range map[string]float64{".5": .5, "+0.5": .5, "0.25": .25, "1": 1, "1e0": 1, "0": 0, "25e-2": .25} {
		doc, err := Parse("f.yaml", fmt.Appendf(nil, file, text), t.TempDir())
		if err != nil {
			t.Errorf("weight: %s: %v", text, err)
			continue
		}
		if got := doc.Config.Pools[0].Endpoints[0].Weight; got != want {
			t.Errorf("weight: %s = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{".", "1.", ".5.5", "01", "0x1", "1_0", "0o1", ".inf", ".nan", "-", "e5"} {
		_, err := Parse("f.yaml", fmt.Appendf(nil, file, text), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "weight") {
			t.Errorf("weight: %s: error %v, want one about weight", text, err)
		}
	}
}
