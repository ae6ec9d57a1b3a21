package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/config"
	"fairlead/internal/health"
	"fairlead/internal/httplb"
	"fairlead/internal/load"
	"fairlead/internal/plan"
	"fairlead/internal/resolve"
)

type explainCmd struct {
	Config string   `required:"" short:"c" placeholder:"FILE" help:"Configuration file."`
	URL    string   `arg:"" help:"What is asked for, such as https://www.example.com/path?query."`
	Method string   `short:"X" default:"GET" help:"Method of the request (${default})."`
	Header []string `short:"H" sep:"none" placeholder:"'NAME: VALUE'" help:"Header of the request; may be repeated."`
	Client string   `default:"192.0.2.1" placeholder:"ADDRESS" help:"Address of the client (${default})."`
	HTTP2  bool     `name:"http2" help:"The client speaks HTTP/2."`
	HTTP3  bool     `name:"http3" help:"The client speaks HTTP/3."`
	Down   []string `placeholder:"POOL/ENDPOINT" help:"An endpoint that is down, or POOL for all of a pool; may be repeated. All others are up."`
}

// Help is shown by explain --help.
func (explainCmd) Help() string {
	return `Tells what a node would make of a request, without sending anything: which rules
apply, which pools and endpoints there are to choose from, with their shares and
why some are out, the session, the choice, and what a retry would do.

  fairlead explain -c lb.yaml https://www.example.com/cart -X POST \
      -H 'Cookie: __fairlead=...' --client 203.0.113.7 --down eu/eu-1

What is drawn by chance is drawn anew each time. A running node tells the same
about its own state: curl 'http://127.0.0.1:9090/explain?host=www.example.com'.`
}

// Run explains a request.
func (c *explainCmd) Run(s streams) error {
	q, err := c.question()
	if err != nil {
		return err
	}
	doc, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	for _, problems := range [...]config.Errors{doc.Judge(plan.Conditions(doc.Config)), config.CheckFiles(doc, plan.CheckSessionKeys(doc.Config)...), doc.Judge(plan.Unbuilt(doc.Config))} {
		if len(problems) > 0 {
			return problems
		}
	}
	databases, err := openDatabases(doc)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	table, names := health.NewTable(quiet), resolve.New(resolve.Config{Log: quiet})
	defer names.Close()
	tables := plan.Tables{Health: table, Load: new(load.Table), Resolver: names, Geo: databases}
	if file, needed := plan.SessionKeys(doc.Config); needed {
		if _, err := os.Stat(file); err != nil {
			tables.Keys = affinity.NewKeys() // no cookie can be one of ours
		}
	}
	p, err := plan.Compile(doc.Config, nil, tables)
	if err != nil {
		return err
	}
	if err := c.suppose(table, p); err != nil {
		return err
	}
	text, err := httplb.Explain(p, q)
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.out, text)
	return err
}

func (c *explainCmd) question() (*httplb.Question, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q: want a URL such as https://www.example.com/path", c.URL)
	}
	client, err := netip.ParseAddr(c.Client)
	if err != nil {
		return nil, fmt.Errorf("--client %q: want an IP address", c.Client)
	}
	return &httplb.Question{
		Method: c.Method, Host: u.Host, Target: u.RequestURI(), Lines: c.Header,
		Client: client.Unmap(), Secure: u.Scheme == "https", HTTP2: c.HTTP2, HTTP3: c.HTTP3,
	}, nil
}

// suppose gives endpoints the verdicts that are asked for.
func (c *explainCmd) suppose(table *health.Table, p *plan.Plan) error {
	var views []*health.Pool
	for _, pool := range p.Pools {
		views = append(views, pool.Health)
	}
	table.Keep(views, nil)
	now := time.Now()
	for _, e := range p.Endpoints {
		if e.Health.Verdict() != health.Unmonitored {
			table.Suppose(e.Health, health.Healthy, now)
		}
	}
	for _, down := range c.Down {
		pool, name, one := strings.Cut(down, "/")
		found := false
		for _, e := range p.Endpoints {
			if e.Pool.Name == pool && (!one || e.Name == name) {
				table.Suppose(e.Health, health.Unhealthy, now)
				found = true
			}
		}
		if !found {
			return fmt.Errorf("--down %s: no such pool or endpoint: want POOL or POOL/ENDPOINT", down)
		}
	}
	return nil
}
