package config

import (
	"os"
	"testing"
	"time"
)

func TestContractLoads(t *testing.T) {
	data, err := os.ReadFile("testdata/contract.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Parse("contract.yaml", data, "/etc/fairlead")
	if err != nil {
		t.Fatal(err)
	}
	c := doc.Config
	if got := c.Monitors[0].Timeout; got != 2*time.Second {
		t.Errorf("monitors[0].timeout = %v, want 2s", got)
	}
	if got, want := doc.At("pools[0].endpoints[1].weight").String(), "contract.yaml:87:57"; got != want {
		t.Errorf("At = %s, want %s", got, want)
	}
	if got, want := c.Geo.Databases[0], "/etc/fairlead/country.mmdb"; got != want {
		t.Errorf("geo.databases[0] = %s, want %s", got, want)
	}
}
