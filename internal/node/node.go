// Package node assembles one running Fairlead: it reads the configuration,
// compiles plans, and puts health checks, data planes and the admin server to
// work on them. Only cmd imports it.
//
// A new plan comes into force in this order: everything of the new is built
// and opened before anything of the old is touched, and if a part fails, the
// old stays as it was.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fairlead/internal/acme"
	"fairlead/internal/admin"
	"fairlead/internal/affinity"
	"fairlead/internal/config"
	"fairlead/internal/dnslb"
	"fairlead/internal/dnssec/keyring"
	"fairlead/internal/geo"
	"fairlead/internal/health"
	"fairlead/internal/httplb"
	"fairlead/internal/load"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/resolve"
	"fairlead/internal/telemetry"
	"fairlead/internal/zone"
)

// Config is what a node needs.
type Config struct {
	// File is the configuration file.
	File string
	// Log takes what operators have to know.
	Log *slog.Logger
	// Version is that of the program.
	Version string
	// Names says who is asked for the addresses of host names. The zero value
	// is this machine's name servers.
	Names resolve.Config
	// Ready, if given, is called once the node serves.
	Ready func(*Node)
}

// Node is one running process.
type Node struct {
	cfg     Config
	log     *slog.Logger
	started time.Time

	health   *health.Table
	checker  *health.Checker
	loads    load.Table
	resolver *resolve.Resolver
	engine   loop.Engine
	acme     *acme.Manager
	http     *httplb.Plane
	dns      *dnslb.Plane
	keys     *keyring.Manager
	serials  zone.Serials
	registry *telemetry.Registry
	admin    *admin.Server
	bound    netip.AddrPort // of the admin server
	serving  sync.WaitGroup

	plan     atomic.Pointer[plan.Plan]
	stopping atomic.Bool

	// What follows belongs to the goroutine of Run, which applies one plan
	// after the other.
	before        *plan.Plan       // the plan that was in force before the current
	document      *config.Document // the file that is in force
	unwatch       func()           // ends the watch over databases; nil before the first plan
	watching      sync.WaitGroup   // of that watch
	retryDrained  time.Time        // not before that
	zoneFiles     zoneFiles
	serialsLoaded bool

	// mu guards what is looked at from outside. It is never held while
	// anything is waited for: /status and /metrics answer during a reload.
	mu     sync.Mutex
	logs   logs
	status admin.ReloadStatus
}

// Run serves what the file declares until ctx is done, then lets requests
// finish within shutdown_timeout, or until now is done. Errors of the file are
// [config.Errors]; what could not be opened is told otherwise.
func Run(ctx, now context.Context, cfg Config) error {
	paceCollector()
	aside := telemetry.NewAside()
	defer aside.Close()
	engine, err := newEngine(aside.Logger(cfg.Log))
	if err != nil {
		return err
	}
	n := &Node{cfg: cfg, log: cfg.Log, started: time.Now(), engine: engine, zoneFiles: make(zoneFiles)}
	n.status.File = cfg.File
	n.health = health.NewTable(cfg.Log)
	n.checker = health.NewChecker(health.CheckerConfig{Table: n.health})
	names := cfg.Names
	names.Log = cfg.Log
	n.resolver = resolve.New(names)
	n.acme = acme.New(cfg.Log)
	n.http = httplb.New(n.engine, n.acme, cfg.Log, aside.Logger(cfg.Log))
	n.registry = telemetry.NewRegistry()
	n.registry.Log = cfg.Log
	n.keys = keyring.New(cfg.Log)
	n.dns = dnslb.New(n.engine, n.keys, cfg.Log, aside.Logger(cfg.Log))
	n.registry.Add(n.http)
	n.registry.Add(n.dns)
	n.registry.Add(n.keys)
	n.registry.Add(n.acme)
	n.registry.Add(aside)
	n.registry.Add(n)
	defer n.close()

	// From the first moment on to the last: unhandled, SIGHUP ends a process.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	w := newWatcher(cfg.File) // before the file is read, so that no change is missed
	doc, databases, err := n.read()
	if err != nil {
		return err
	}
	if err := n.listenAdmin(doc.Config); err != nil {
		return err
	}
	if err := n.apply(ctx, doc, databases); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it served
		}
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready(n)
	}
	n.follow(ctx, w, hup)
	n.shutdown(now)
	return nil
}

// Listeners returns the open listeners.
func (n *Node) Listeners() []httplb.ListenerState {
	list := n.http.Listeners()
	for _, l := range n.dns.Listeners() {
		list = append(list, httplb.ListenerState(l))
	}
	return list
}

// Admin returns the address of the admin server, or an invalid one when it is
// off.
func (n *Node) Admin() netip.AddrPort { return n.bound }

// Plan returns the plan in force, nil before the first.
func (n *Node) Plan() *plan.Plan { return n.plan.Load() }

func (n *Node) listenAdmin(c *model.Config) error {
	if c.Admin.Address == "off" {
		return nil
	}
	n.admin = admin.New(admin.Config{
		Address: c.Admin.Address, Log: n.log, Registry: n.registry, Version: n.cfg.Version, Started: n.started,
		Plan: n.plan.Load, Ready: n.ready, Health: n.health, Probes: n.checker.Stats,
		Lookups: n.resolver.Stats, Listeners: n.listeners, Reloads: n.reloads, Databases: n.databaseStatus,
		Explain: func(q *admin.Question) (string, error) { return n.http.Explain((*httplb.Question)(q)) },
	})
	var err error
	if n.bound, err = n.admin.Listen(); err != nil {
		return err
	}
	n.log.Info("admin is open", "address", n.bound.String())
	n.serving.Go(func() {
		if err := n.admin.Serve(); err != nil {
			n.log.Error("admin has ended", "error", err)
		}
	})
	return nil
}

func (n *Node) ready() (bool, string) {
	switch {
	case n.stopping.Load():
		return false, "shutting down"
	case n.plan.Load() == nil:
		return false, "waiting for the first verdicts"
	}
	return true, ""
}

func (n *Node) listeners() []admin.ListenerStatus {
	var list []admin.ListenerStatus
	for _, l := range n.http.Listeners() {
		list = append(list, admin.ListenerStatus{Name: l.Name, Address: l.Address.String(), Protocol: l.Protocol, OpenConnections: l.Open})
	}
	for _, l := range n.dns.Listeners() {
		list = append(list, admin.ListenerStatus{Name: l.Name, Address: l.Address.String(), Protocol: l.Protocol, OpenConnections: l.Open})
	}
	return list
}

func (n *Node) reloads() admin.ReloadStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.status
}

// shutdown ends the data planes, then everything beneath them.
func (n *Node) shutdown(now context.Context) {
	n.stopping.Store(true)
	d := n.plan.Load().Config.ShutdownTimeout
	n.log.Info("shutting down", "timeout", d.String())
	ctx, cancel := context.WithTimeout(now, d)
	defer cancel()
	// Names are answered for as long as clients come to them.
	if cut := n.http.Shutdown(ctx) + n.dns.Shutdown(ctx); cut > 0 {
		why := "shutdown_timeout has passed"
		if now.Err() != nil {
			why = "asked to end at once"
		}
		n.log.Warn("connections were cut", "connections", cut, "reason", why)
	}
}

// close ends what may have been started, in reverse order.
func (n *Node) close() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	n.http.Shutdown(over) // nothing is left after shutdown
	n.dns.Shutdown(over)
	n.keys.Close()
	n.acme.Close()
	n.engine.Close()
	if n.unwatch != nil {
		n.unwatch()
		n.watching.Wait()
	}
	n.checker.Close()
	n.resolver.Close()
	if n.admin != nil && n.bound.IsValid() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.admin.Shutdown(ctx); err != nil {
			n.log.Debug("requests to admin were cut", "error", err)
		}
		n.serving.Wait()
	}
	n.currentLogs().close(n.log)
}

// read reads the file, and the databases of geography that it names, and refuses
// what cannot be served.
func (n *Node) read() (*config.Document, *geo.Databases, error) {
	doc, err := config.Load(n.cfg.File)
	if err != nil {
		return nil, nil, err
	}
	n.zoneFiles.follow(doc.Config)
	if errs := config.CheckFiles(doc, plan.CheckSessionKeys(doc.Config)...); len(errs) > 0 {
		return nil, nil, errs
	}
	if errs := doc.Judge(plan.Conditions(doc.Config)); len(errs) > 0 {
		return nil, nil, errs
	}
	if errs := doc.Judge(plan.Zones(doc.Config)); len(errs) > 0 {
		return nil, nil, errs
	}
	if errs := doc.Judge(keyring.Problems(doc.Config, time.Now())); len(errs) > 0 {
		return nil, nil, errs
	}
	if errs := doc.Judge(plan.Unbuilt(doc.Config)); len(errs) > 0 {
		return nil, nil, errs
	}
	databases, err := n.databases(doc)
	if err != nil {
		return nil, nil, err
	}
	if errs := doc.Judge(plan.Geography(doc.Config, databases.Gives())); len(errs) > 0 {
		return nil, nil, errs
	}
	for _, w := range doc.Warnings {
		n.log.Warn("configuration", "warning", w.Error())
	}
	if doc.Config.Node.Name == "" {
		doc.Config.Node.Name, _ = os.Hostname()
	}
	return doc, databases, nil
}

// apply puts a document in force, or changes nothing.
func (n *Node) apply(ctx context.Context, doc *config.Document, databases *geo.Databases) error {
	p, err := n.enforce(ctx, doc, databases)
	if err != nil {
		return err
	}
	n.document = doc
	n.mu.Lock()
	n.status.Applied, n.status.Tried, n.status.Error = time.Now(), time.Now(), ""
	n.mu.Unlock()
	n.log.Info("configuration is in force", "revision", p.Revision, "listeners", len(p.Listeners)+len(p.DNSListeners),
		"load_balancers", len(p.LoadBalancers), "pools", len(p.Pools), "endpoints", len(p.Endpoints), "zones", len(p.Zones))
	return nil
}

// enforce makes a plan of a document and puts it in force, or changes nothing.
func (n *Node) enforce(ctx context.Context, doc *config.Document, databases *geo.Databases) (*plan.Plan, error) {
	old := n.plan.Load()
	var p *plan.Plan
	err := n.ensureKeys(doc.Config)
	if err == nil && len(doc.Config.Zones) > 0 {
		err = n.loadSerials(doc.Config)
	}
	if err == nil {
		p, err = plan.Compile(doc.Config, old, plan.Tables{Health: n.health, Load: &n.loads, Resolver: n.resolver, Geo: databases, Serials: &n.serials})
	}
	if err == nil {
		err = n.keys.Ensure(doc.Config, longestTTLs(p))
	}
	if err == nil {
		err = n.swap(ctx, p, old)
	}
	if err != nil {
		n.settle(old) // forget what the failed plan brought
		revision := uint64(1)
		if old != nil {
			revision = old.Revision + 1
		}
		return nil, fmt.Errorf("revision %d: %w", revision, err)
	}
	n.announceDrains(old, p)
	return p, nil
}

// ensureKeys makes the keys of session cookies if they are needed and there are
// none.
func (n *Node) ensureKeys(c *model.Config) error {
	file, needed := plan.SessionKeys(c)
	if !needed {
		return nil
	}
	made, err := affinity.EnsureKeys(file)
	if err != nil {
		return fmt.Errorf("keys of session cookies: %w", err)
	}
	if made {
		n.log.Info("session keys were made, as there were none", "file", file)
	}
	return nil
}

// swap makes p the plan in force.
func (n *Node) swap(ctx context.Context, p, old *plan.Plan) error {
	var names []*resolve.Name
	for _, e := range p.Endpoints {
		if name := e.ResolvedName(); name != nil {
			names = append(names, name)
		}
	}
	n.resolver.Prime(ctx, names...)
	n.checker.Prime(ctx, p.Targets)
	if ctx.Err() != nil { // the node is to stop: open nothing
		return context.Cause(ctx)
	}

	// What is stored is there when listeners open; what is not is obtained
	// when they are open, as the authority asks them.
	certificates, err := n.acme.Prepare(p.Config)
	if err != nil {
		return err
	}
	n.acme.Preload(certificates)
	was := n.currentLogs()
	opened, err := n.openLogs(p, old)
	if err != nil {
		return err
	}
	if err := n.serve(p, old, opened, was); err != nil {
		opened.but(was).close(n.log)
		return err
	}
	n.acme.Use(certificates)
	n.before = old
	n.plan.Store(p)
	n.mu.Lock()
	n.logs = opened
	n.mu.Unlock()
	was.but(opened).close(n.log)
	n.keepSerials(p)
	n.settle(p)
	if old == nil || p.Geo != old.Geo {
		n.watchDatabases(p.Geo)
	}
	return nil
}

// serve puts a plan in force in all planes, or in none.
func (n *Node) serve(p, old *plan.Plan, now, was logs) error {
	if err := n.dns.Apply(p, now.query); err != nil {
		return err
	}
	err := n.http.Apply(p, now.access)
	if err == nil || old == nil {
		return err
	}
	if again := n.dns.Apply(old, was.query); again != nil {
		n.log.Error("DNS listeners of the configuration in force are not back", "error", again)
	}
	return err
}

// settle makes the tables that outlive plans follow the plan in force.
func (n *Node) settle(p *plan.Plan) {
	if p == nil {
		return
	}
	n.keys.Keep(p.Config, longestTTLs(p))
	n.checker.Apply(p.Targets)
	current, previous := views(p), views(n.before)
	n.health.Keep(current, previous)
	loads, hosts := make(map[load.Key]bool), make(map[string]bool)
	for _, q := range []*plan.Plan{p, n.before} {
		if q == nil {
			continue
		}
		for _, pool := range q.Pools {
			loads[load.Key{Pool: pool.Name}] = true
		}
		for _, e := range q.Endpoints {
			loads[load.Key{Pool: e.Pool.Name, Endpoint: e.Name, Address: e.Key}] = true
			if name := e.ResolvedName(); name != nil {
				hosts[name.Host] = true
			}
		}
	}
	n.loads.Keep(func(k load.Key) bool { return loads[k] })
	n.resolver.Keep(func(host string) bool { return hosts[host] })
}

func views(p *plan.Plan) []*health.Pool {
	if p == nil {
		return nil
	}
	list := make([]*health.Pool, len(p.Pools))
	for i, pool := range p.Pools {
		list[i] = pool.Health
	}
	return list
}
