package httplb

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/h1"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/rules"
	"fairlead/internal/steer"
)

// Question is a request of which is asked what would become of it.
type Question struct {
	Method, Host, Target string   // of the target path and query
	Lines                []string // of the head: "Name: value"
	Client               netip.Addr
	Secure, HTTP2, HTTP3 bool
}

// request writes the question down as a request and reads it as any other.
func (q *Question) request() (*h1.Request, error) {
	head := q.Method + " " + q.Target + " HTTP/1.1\r\nHost: " + q.Host + "\r\n"
	for _, line := range q.Lines {
		if strings.ContainsAny(line, "\r\n") {
			return nil, errors.New("a header of more than one line")
		}
		head += line + "\r\n"
	}
	head += "\r\n"
	req := new(h1.Request)
	n, err := req.Parse([]byte(head), &h1.Limits{HeadBytes: 1 << 20, Fields: 1000})
	if err == nil && n != len(head) {
		err = errors.New("more than a request")
	}
	if err != nil {
		return nil, fmt.Errorf("no request can be made of this: %w", err)
	}
	return req, nil
}

// Explain tells, as a tree, what a plan would make of a request: nothing is sent and
// nothing changes.
func Explain(pl *plan.Plan, q *Question) (string, error) {
	snap := &snapshot{plan: pl}
	for range pl.LoadBalancers {
		snap.balancers = append(snap.balancers, new(balancerStats))
	}
	return explain(snap, q)
}

// Explain tells what would become of a request now.
func (p *Plane) Explain(q *Question) (string, error) {
	snap := p.snap.Load()
	if snap == nil {
		return "", errors.New("no configuration is in force yet")
	}
	return explain(snap, q)
}

func explain(snap *snapshot, q *Question) (string, error) {
	req, err := q.request()
	if err != nil {
		return "", err
	}
	protocol := "HTTP/1.1"
	switch {
	case q.HTTP3 && (q.HTTP2 || !q.Secure):
		return "", errors.New("HTTP/3 is spoken over TLS only, and not beside HTTP/2")
	case q.HTTP3:
		protocol = protocolThree
	case q.HTTP2:
		protocol = "HTTP/2"
	}
	x := &exchange{snap: snap, asks: true, peer: addrOnly(q.Client), secure: q.Secure, rnd: *rand.NewPCG(rand.Uint64(), rand.Uint64())}
	x.start = loop.Now()
	x.facts.Client, x.facts.Place = q.Client, snap.plan.Node
	x.where.of(q.Client, snap.plan.Geo)
	return x.explain(new(explained), req, protocol, 0), nil
}

// tellEvery is how often requests are explained in the log at most: it costs what
// many requests do.
const tellEvery = time.Second

// tell tells in the log what becomes of the request: the same that will, as it draws
// the same. Who reads the log need not see what clients keep secret.
func (x *exchange) tell(req *h1.Request) {
	last, now := x.ln.told.Load(), int64(x.start)
	if last != 0 && now-last < int64(tellEvery) || !x.ln.told.CompareAndSwap(last, now) {
		return
	}
	y := &exchange{snap: x.snap, asks: true, peer: x.peer, secure: x.secure, tls: x.tls, trusted: x.trusted, rnd: x.rnd, facts: x.facts, where: x.where}
	y.start = x.start
	text := y.explain(&explained{discreet: true}, req, x.s.protocol(), x.ln.bound().Port())
	x.ln.plane.aside.Info("request explained", "listener", x.ln.name(), "explanation", text)
}

// hasField reports whether a request has a field of a name.
func hasField(req *h1.Request, name []byte) bool {
	for i := range req.Fields {
		if bytes.EqualFold(req.Name(&req.Fields[i]), name) {
			return true
		}
	}
	return false
}

// explained is a tree as it is written: two spaces for each level.
type explained struct {
	strings.Builder
	depth    int
	discreet bool // values that may be secrets are left out
}

func (t *explained) line(format string, values ...any) {
	t.WriteString(strings.Repeat("  ", t.depth))
	fmt.Fprintf(t, format, values...)
	t.WriteByte('\n')
}

// under writes what f writes one level deeper.
func (t *explained) under(f func()) {
	t.depth++
	defer func() { t.depth-- }()
	f()
}

// explain tells what becomes of a request. It makes of x what the request would, up
// to the choice of an endpoint; what it draws, the request draws as well if it has
// the same source.
func (x *exchange) explain(t *explained, req *h1.Request, protocol string, port uint16) string {
	scheme := "http"
	if x.secure {
		scheme = "https"
	}
	target := req.Target
	if t.discreet {
		target = req.Path
	}
	t.line("%s %s://%s%s from %s", req.Method, scheme, req.HostPort, target, x.facts.Client)
	x.lb = x.snap.plan.Host(req.Host)
	if x.lb == nil {
		t.line("load balancer: none has this host: %d %s", failNoHost.status, failNoHost.title)
		return t.String()
	}
	x.lbs = x.snap.balancers[x.lb.Index]
	t.line("load balancer %s", x.lb.Name)
	t.under(func() {
		if !x.explainRules(t, req, protocol, port) {
			x.explainChoice(t, req)
		}
	})
	return t.String()
}

// explainRules tells of the rules, and reports whether one has the answer.
func (x *exchange) explainRules(t *explained, req *h1.Request, protocol string, port uint16) (answered bool) {
	if len(x.lb.Rules) == 0 {
		t.line("rules: none")
		return false
	}
	t.line("rules")
	x.look(req, protocol, port)
	var key []byte
	t.under(func() {
		for i := range x.lb.Rules {
			r := &x.lb.Rules[i]
			x.judgement.view.made = x.judgement.view.made[:0]
			step := r.Condition.Explain(&x.judgement.view)
			t.line("%s: %s", r.Name, applies(step.Result))
			t.under(func() {
				explainStep(t, &step)
				switch {
				case !step.Result:
				case r.Response != nil:
					t.line("answer: %d %s %s", r.Response.Status, r.Response.Reason, strings.Join(strings.Fields(r.Response.Lines), " "))
					answered = true
				default:
					t.line("overrides %s", strings.Join(r.Overrides(), ", "))
					key = plan.AppendOverride(key, r)
				}
			})
			if step.Result && r.Last {
				if rest := len(x.lb.Rules) - i - 1; rest > 0 {
					t.line("%d more are not looked at", rest)
				}
				break
			}
		}
	})
	if len(key) > 0 {
		x.lb = x.lb.With(key)
	}
	return answered
}

func applies(is bool) string {
	if is {
		return "applies"
	}
	return "does not apply"
}

// mayBeSecret reports whether what a part of a condition looks at may be what proves
// who a client is.
func mayBeSecret(text string) bool {
	for _, field := range [...]string{"cookie", "headers", "args", "query", "uri", "referer"} {
		if strings.Contains(text, field) {
			return true
		}
	}
	return false
}

// explainStep tells what each part of a condition is.
func explainStep(t *explained, s *rules.Step) {
	if s.Op == "" {
		value := ""
		if s.Value != "" && s.Value != s.Text && !(t.discreet && mayBeSecret(s.Text)) {
			value = " (" + s.Value + ")"
		}
		t.line("%v: %s%s", s.Result, s.Text, value)
		return
	}
	t.line("%v: %s", s.Result, s.Op)
	t.under(func() {
		for i := range s.Parts {
			explainStep(t, &s.Parts[i])
		}
	})
}

// explainChoice tells of the session, the pools and the endpoints.
func (x *exchange) explainChoice(t *explained, req *h1.Request) {
	x.explainPlace(t)
	x.bind(req)
	x.explainSession(t)
	now := x.start.Wall()
	draws := x.rnd // what a retry draws comes behind the choice
	e := steer.Explain(x.lb, &x.facts, &x.rnd, now)
	t.line("pools: %s of %s", e.Policy, e.List)
	t.under(func() {
		for i := range e.Pools {
			t.line("%s", poolLine(&e.Pools[i], e.Policy))
		}
		if e.Fallback != nil {
			t.line("fallback: %s", poolLine(e.Fallback, e.Policy))
		}
	})
	if len(e.Endpoints) > 0 {
		p := e.Endpoints[0].Endpoint.Pool
		t.line("endpoints of pool %s: %s", p.Name, p.Policy)
		t.under(func() {
			for i := range e.Endpoints {
				t.line("%s", endpointLine(&e.Endpoints[i]))
			}
		})
	}
	if !e.OK {
		t.line("chosen: none: %d %s", failNoPool.status, failNoPool.title)
		return
	}
	d := e.Decision
	t.line("chosen: pool %s, endpoint %s at %s (%s)", d.Pool.Name, d.Endpoint.Name, d.Endpoint.Key, d.Reason)
	x.decision = d
	x.binding.held = d.Reason == steer.ReasonSession
	t.line("a retry: %s", x.explainRetry(&draws))
}

// explainPlace tells where the client is taken to be, if that matters.
func (x *exchange) explainPlace(t *explained) {
	if !x.lb.ByPlace {
		return
	}
	x.situate()
	place := x.where.look()
	known := []string{}
	switch {
	case place.HasCoordinates && !place.Middle:
		known = append(known, fmt.Sprintf("%.4g, %.4g", place.Latitude, place.Longitude))
	case place.HasCoordinates:
		known = append(known, fmt.Sprintf("the middle of the country, %.4g, %.4g", place.Latitude, place.Longitude))
	}
	if place.Country == "" {
		known = append(known, "country not known: the node's holds")
	}
	if !place.HasCoordinates {
		known = append(known, "coordinates not known: the node's hold")
	}
	t.line("place: PoP %s, country %s, region %s; %s", orNone(x.facts.Place.PoP), orNone(string(x.facts.Place.Country)), orNone(string(x.facts.Place.Region)), strings.Join(known, "; "))
}

func orNone(code string) string {
	if code == "" {
		return "none"
	}
	return code
}

func (x *exchange) explainSession(t *explained) {
	a := x.lb.Affinity
	switch e := x.facts.Session; {
	case a == nil:
		t.line("session: none is kept")
	case a.Kind == model.AffinityClientIP:
		t.line("session: %s: the client's address decides", a.Kind)
	case e == nil:
		t.line("session: %s: the request has none; an answer begins one", a.Kind)
	case !a.Keeps(e, x.start.Wall()):
		t.line("session: %s: at endpoint %s of pool %s, which is disabled", a.Kind, e.Name, e.Pool.Name)
	case !e.Health.Up():
		t.line("session: %s: at endpoint %s of pool %s, which is down", a.Kind, e.Name, e.Pool.Name)
	default:
		until := ""
		if s := x.binding.session; s != (affinity.Session{}) {
			until = ", until " + time.Unix(s.Expires, 0).UTC().Format(time.RFC3339)
		}
		t.line("session: %s: at endpoint %s of pool %s%s", a.Kind, e.Name, e.Pool.Name, until)
	}
}

// explainRetry says what a retry after a failure would do.
func (x *exchange) explainRetry(draws steer.Source) string {
	if x.binding.held && x.lb.Affinity.Failover == model.FailoverNone {
		return "none: zero_downtime_failover is none, and this is a session's request"
	}
	if x.lb.RetryBudget == 0 {
		return "none: retry_budget is 0"
	}
	now := x.start.Wall()
	next, ok := steer.Again(x.decision, &x.facts, draws, now)
	if !ok && x.lb.AcrossPools {
		next, ok = steer.Elsewhere(x.lb, x.decision, &x.facts, draws, now)
	}
	switch {
	case !ok && x.lb.AcrossPools:
		return "none: no other endpoint can be used"
	case !ok:
		return "none: the pool has no other endpoint that can be used"
	}
	return fmt.Sprintf("on endpoint %s of pool %s, or another that can be used, within the budget of %v %% of requests", next.Endpoint.Name, next.Pool.Name, 100*x.lb.RetryBudget)
}

func poolLine(c *steer.PoolCandidate, policy model.SteeringPolicy) string {
	b := c.Pool.Name
	if c.Dropped != "" {
		b += ": out: " + c.Dropped
	} else {
		b += fmt.Sprintf(": share %s", percent(c.Share))
	}
	if c.Weight > 0 {
		b += fmt.Sprintf(", weight %.4g", c.Weight)
	}
	switch {
	case policy == model.SteerDynamicLatency && c.Warming:
		b += ", latency not known yet"
	case policy == model.SteerDynamicLatency:
		b += fmt.Sprintf(", latency %v", c.Latency)
	case policy == model.SteerProximity && c.Distance >= 0:
		b += fmt.Sprintf(", %.0f km away", c.Distance)
	case policy == model.SteerProximity:
		b += ", distance not known"
	}
	return b
}

func endpointLine(c *steer.EndpointCandidate) string {
	e := c.Endpoint
	b := fmt.Sprintf("%s at %s", e.Name, e.Key)
	if c.Dropped != "" {
		return b + ": out: " + c.Dropped
	}
	return b + fmt.Sprintf(": share %s, weight %.4g, %d requests open", percent(c.Share), c.Weight, e.Load.Requests())
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }
