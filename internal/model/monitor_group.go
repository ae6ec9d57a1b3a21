package model

// MonitorGroup is several monitors that judge an endpoint together: it is
// unhealthy if one that must be healthy fails, or more than half of those that
// vote.
type MonitorGroup struct {
	// Name, unique among monitor groups: letters, digits, - and _.
	Name string `yaml:"name"`
	// Free text, up to 1024 characters.
	Description string `yaml:"description"`
	// The monitors, of which at least one is enabled and votes.
	Members []MonitorMember `yaml:"members"`
}

// MonitorMember is a monitor in a group.
type MonitorMember struct {
	// Name of the monitor.
	Monitor string `yaml:"monitor"`
	// A disabled member sends no probes and does not vote. Default true.
	Enabled bool `yaml:"enabled"`
	// When this monitor finds an endpoint unhealthy, it is, whatever the others
	// say. Default false.
	MustBeHealthy bool `yaml:"must_be_healthy"`
	// Probe, show and log, and do not vote; excludes must_be_healthy. Default
	// false.
	MonitoringOnly bool `yaml:"monitoring_only"`
}

// SetDefaults fills in what holds when a key is left out.
func (m *MonitorMember) SetDefaults() { m.Enabled = true }

// Votes reports whether the member has a say in verdicts.
func (m *MonitorMember) Votes() bool { return m.Enabled && !m.MonitoringOnly }
