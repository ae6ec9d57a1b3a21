package plan

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"fairlead/internal/model"
	"fairlead/internal/rules"
)

// Rule is a compiled rule of a load balancer.
type Rule struct {
	// Index is its place among those that run.
	Index     int
	Name      string
	Condition *rules.Program
	// Last says that no other rule runs once this one has applied.
	Last bool
	// Response is the answer to give, or nil.
	Response *Response

	overrides *model.Overrides
}

// Response is an answer that a rule gives.
type Response struct {
	Status int
	Reason string // phrase of the status line
	Lines  string // of the head, without the length
	Body   string
}

// Overrides returns the names of the settings that the rule changes.
func (r *Rule) Overrides() (names []string) {
	if r.overrides == nil {
		return nil
	}
	v := reflect.ValueOf(*r.overrides)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Tag.Get("yaml"))
		}
	}
	return names
}

// variants are what a load balancer becomes by the overrides of rules.
type variants struct {
	compiler *compiler
	base     *model.LoadBalancer
	rules    []Rule

	mu    sync.Mutex // held to write
	known atomic.Pointer[map[string]*LoadBalancer]
}

// maxVariants bounds the variants that are kept: rules that apply independently of
// each other, by what clients send, make two to the power of their number.
const maxVariants = 256

// AppendOverride appends a rule that applies to the key of With.
func AppendOverride(key []byte, r *Rule) []byte {
	return binary.BigEndian.AppendUint16(key, uint16(r.Index))
}

// With returns the load balancer with the overrides of rules, which key lists in
// the order in which they applied (AppendOverride). What one sets, a later one may
// set again. It allocates only for a combination that is new to the plan.
func (b *LoadBalancer) With(key []byte) *LoadBalancer {
	v := b.variants
	if known := v.known.Load(); known != nil {
		if c := (*known)[string(key)]; c != nil {
			return c
		}
	}
	c := v.compile(b, key)
	v.mu.Lock()
	defer v.mu.Unlock()
	next := make(map[string]*LoadBalancer)
	if known := v.known.Load(); known != nil {
		if len(*known) >= maxVariants {
			return c // who makes so many has each compiled
		}
		next = maps.Clone(*known)
	}
	next[string(key)] = c
	v.known.Store(&next)
	return c
}

func (v *variants) compile(b *LoadBalancer, key []byte) *LoadBalancer {
	m, renew := v.base, false
	for ; len(key) > 0; key = key[2:] {
		o := v.rules[binary.BigEndian.Uint16(key)].overrides
		m = o.Apply(m)
		renew = renew || o.SessionAffinityTTL != 0
	}
	c := v.compiler.balancer(m)
	c.Index = b.Index
	if c.Affinity != nil {
		c.Affinity.Renew = renew
	}
	return c
}

// rules compiles the rules of b. Their conditions are valid (Conditions).
func (k *compiler) rules(b *LoadBalancer, m *model.LoadBalancer) error {
	var list []*model.Rule
	for i := range m.Rules {
		if !m.Rules[i].Disabled {
			list = append(list, &m.Rules[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *model.Rule) int { return a.Priority - b.Priority })
	for i, r := range list {
		condition, err := rules.Compile(r.Condition, ruleMode(m))
		if err != nil {
			return fmt.Errorf("rule %q: condition: %w", r.Name, err)
		}
		b.Rules = append(b.Rules, Rule{
			Index: i, Name: r.Name, Condition: condition, Last: r.Terminates || r.FixedResponse != nil,
			Response: response(r.FixedResponse), overrides: r.Overrides,
		})
	}
	if len(list) > 0 {
		b.variants = &variants{compiler: k, base: m, rules: b.Rules}
	}
	return nil
}

func response(f *model.FixedResponse) *Response {
	if f == nil {
		return nil
	}
	r := &Response{Status: f.StatusCode, Reason: http.StatusText(f.StatusCode), Body: f.MessageBody}
	if f.MessageBody != "" {
		r.Lines = "Content-Type: " + f.ContentType + "\r\n"
	}
	if f.Location != "" {
		r.Lines += "Location: " + f.Location + "\r\n"
	}
	return r
}

// ruleMode is what the rules of a load balancer are evaluated for.
func ruleMode(m *model.LoadBalancer) rules.Mode {
	if m.Proxied {
		return rules.ModeHTTP
	}
	return rules.ModeDNS
}
