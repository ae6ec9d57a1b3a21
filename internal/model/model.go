// Package model holds what people declare: monitors, pools, load balancers,
// listeners, zones, and the settings of one node.
//
// It is the vocabulary of the whole program and imports nothing of ours. A
// Config is what was written, with defaults filled in by SetDefaults; nothing
// that was decided from it (package plan) or observed at run time (packages
// health and load) is stored here. [Config.Validate] finds everything that is
// wrong at once and names each place by a path such as
// "pools[0].endpoints[2].weight", which package config turns into
// file:line:column.
//
// Field comments are the reference for users: they become the descriptions
// of the JSON Schema. Each names the unit, the range and the default.
package model

import (
	"net/netip"
	"time"
)

// Config is everything that one file declares.
type Config struct {
	// This process, and where on Earth it stands.
	Node Node `yaml:"node"`
	// REST API, /metrics, /status, /livez and /readyz.
	Admin Admin `yaml:"admin"`
	// Directory for what this node must keep: keys, certificates, last good
	// plan. Default ./data.
	DataDir string `yaml:"data_dir"`
	// Where declarations live when not in this file. Without it the file is
	// the truth.
	State *State `yaml:"state"`
	// Databases that tell where an address is.
	Geo Geo `yaml:"geo"`
	// One JSON line for each request. Off unless output is set.
	AccessLog AccessLog `yaml:"access_log"`
	// One JSON line for each DNS query. Off unless output is set.
	QueryLog QueryLog `yaml:"query_log"`
	// How long a stopping node waits for requests in flight, 0s to 24h.
	// Default 30s.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
	// Where the certificates of names that listeners list under acme come from.
	ACME *ACME `yaml:"acme"`
	// Addresses that are open to clients.
	Listeners []Listener `yaml:"listeners"`
	// How the health of endpoints is probed.
	Monitors []Monitor `yaml:"monitors"`
	// Monitors that judge endpoints together.
	MonitorGroups []MonitorGroup `yaml:"monitor_groups"`
	// Endpoints that are alike, in one place.
	Pools []Pool `yaml:"pools"`
	// Pools, and the policy that chooses among them.
	LoadBalancers []LoadBalancer `yaml:"load_balancers"`
	// What the DNS plane is authoritative for.
	Zones []Zone `yaml:"zones"`
}

// SetDefaults fills in what holds when a key is left out.
func (c *Config) SetDefaults() {
	c.DataDir = "./data"
	c.ShutdownTimeout = 30 * time.Second
	c.Admin.SetDefaults()
	c.AccessLog.SetDefaults()
	c.QueryLog.SetDefaults()
}

// Node is one running process and the place where it stands.
type Node struct {
	// Name of this node, unique among the nodes. Default: the host name.
	Name string `yaml:"name"`
	// Data-centre code, used by pop_pools.
	PoP string `yaml:"pop"`
	// One of the 13 region codes, used by region_pools.
	Region Region `yaml:"region"`
	// ISO 3166-1 alpha-2 code, used by country_pools.
	Country Country `yaml:"country"`
	// Degrees north, -90 to 90. Given together with longitude.
	Latitude *float64 `yaml:"latitude"`
	// Degrees east, -180 to 180. Given together with latitude.
	Longitude *float64 `yaml:"longitude"`
	// Addresses that proxied names resolve to in the DNS plane.
	PublicAddresses []netip.Addr `yaml:"public_addresses"`
	// What endpoints see as the source of traffic and probes: at most one
	// IPv4 and one IPv6 address of this machine. Default: the kernel's choice.
	SourceAddresses []netip.Addr `yaml:"source_addresses"`
}

// Admin is the address of the REST API and of what operators look at.
type Admin struct {
	// host:port. "off" opens none. Default 127.0.0.1:9090.
	Address string `yaml:"address"`
}

// SetDefaults fills in what holds when a key is left out.
func (a *Admin) SetDefaults() { a.Address = "127.0.0.1:9090" }

// State says where declarations live when they are not in this file.
type State struct {
	// true: a single etcd member inside this process, in data_dir.
	Embedded bool `yaml:"embedded"`
	// URLs of an existing etcd cluster; excludes embedded.
	Endpoints []string `yaml:"endpoints"`
	// PEM file with the authority that signed the cluster's certificates.
	CA string `yaml:"ca"`
	// PEM file with this node's certificate for the cluster.
	Certificate string `yaml:"certificate"`
	// PEM file with the certificate's key.
	Key string `yaml:"key"`
	// User of the cluster.
	Username string `yaml:"username"`
	// Password of that user.
	Password string `yaml:"password" secret:"true"`
}

// Geo names the databases that tell where an address is.
type Geo struct {
	// MMDB files of any vendor; of each fact, the first that has it counts.
	// Changes of the files are taken up. Without files every client has the
	// node's place.
	Databases []string `yaml:"databases"`
}

// AccessLog writes one JSON line for each request.
type AccessLog struct {
	// stdout or the name of a file. Default: no access log.
	Output string `yaml:"output"`
	// Share of requests that are logged, above 0 to 1; requests that end in
	// an error made by Fairlead are always logged. Default 1.
	Sample float64 `yaml:"sample"`
}

// SetDefaults fills in what holds when a key is left out.
func (a *AccessLog) SetDefaults() { a.Sample = 1 }

// QueryLog writes one JSON line for each DNS query.
type QueryLog struct {
	// stdout or the name of a file. Default: no query log.
	Output string `yaml:"output"`
	// Share of queries that are logged, above 0 to 1. Default 1.
	Sample float64 `yaml:"sample"`
}

// SetDefaults fills in what holds when a key is left out.
func (q *QueryLog) SetDefaults() { q.Sample = 1 }
