package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"

	"fairlead/internal/model"
)

var update = flag.Bool("update", false, "write the files that are generated from the model")

// fresh compares a generated file with what it should hold, or writes it.
func fresh(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: run go generate ./internal/config", file)
	}
}

func TestSchemaIsFresh(t *testing.T) {
	data, err := json.MarshalIndent(buildSchema(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, "schema.json", append(data, '\n'))
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	addrType     = reflect.TypeFor[netip.Addr]()
	prefixType   = reflect.TypeFor[netip.Prefix]()
)

// buildSchema makes the schema from the types and their comments.
func buildSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	r := &jsonschema.Reflector{
		FieldNameTag:               "yaml",
		RequiredFromJSONSchemaTags: true, // no field is required by its tag
		Anonymous:                  true, // the schema has no address of its own
		Mapper:                     mapType,
	}
	// The base and the folder are joined to the import path of the types.
	if err := r.AddGoComments("fairlead/internal/config", "../model", jsonschema.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	s := r.Reflect(&model.Config{})
	s.Title = "Fairlead configuration"
	required := requiredKeys()
	for _, typ := range modelTypes() {
		def := s.Definitions[typ.Name()]
		if def == nil {
			t.Fatalf("no schema for %s", typ)
		}
		def.Description = oneLine(r.CommentMap["fairlead/internal/model."+typ.Name()])
		def.Required = required[typ.Name()]
		defaults := reflect.New(typ)
		if d, ok := defaults.Interface().(interface{ SetDefaults() }); ok {
			d.SetDefaults()
		}
		for i := range typ.NumField() {
			key := typ.Field(i).Tag.Get("yaml")
			prop, ok := def.Properties.Get(key)
			if !ok {
				t.Fatalf("%s has no property %s", typ.Name(), key)
			}
			prop.Description = oneLine(r.CommentMap["fairlead/internal/model."+typ.Name()+"."+typ.Field(i).Name])
			refine(prop, typ.Field(i), defaults.Elem().Field(i))
		}
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// modelTypes lists the structs that a file is made of, in the order of the
// file.
func modelTypes() []reflect.Type {
	var list []reflect.Type
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch {
		case typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map:
			visit(typ.Elem())
		case typ.Kind() == reflect.Struct && strings.HasSuffix(typ.PkgPath(), "/model") && !slices.Contains(list, typ):
			list = append(list, typ)
			for i := range typ.NumField() {
				visit(typ.Field(i).Type)
			}
		}
	}
	visit(reflect.TypeFor[model.Config]())
	return list
}

// mapType gives the schema of the types that are written as scalars.
func mapType(typ reflect.Type) *jsonschema.Schema {
	if e, ok := reflect.Zero(typ).Interface().(interface{ Values() []string }); ok {
		s := &jsonschema.Schema{Type: "string"}
		for _, v := range e.Values() {
			s.Enum = append(s.Enum, v)
		}
		return s
	}
	switch typ {
	case durationType:
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "string", Pattern: durationText.String()},
			{Type: "number", Minimum: "0"},
		}}
	case addrType:
		return &jsonschema.Schema{Type: "string", AnyOf: []*jsonschema.Schema{{Format: "ipv4"}, {Format: "ipv6"}}}
	case prefixType:
		return &jsonschema.Schema{Type: "string", Pattern: `^[0-9a-fA-F:.]+/[0-9]+$`}
	case reflect.TypeFor[model.Region]():
		s := &jsonschema.Schema{Type: "string"}
		for _, r := range model.Regions {
			s.Enum = append(s.Enum, string(r.Code))
		}
		return s
	case reflect.TypeFor[model.Country]():
		return &jsonschema.Schema{Type: "string", Pattern: `^[A-Z]{2}$`}
	}
	return nil
}

// rangeText is how comments write ranges.
var rangeText = regexp.MustCompile(`(?:^|[ ,:])(above )?(-?[0-9]+(?:\.[0-9]+)?) to (-?[0-9]+(?:\.[0-9]+)?)(?:[ .,;]|$)`)

// refine adds to a property what only its field knows.
func refine(prop *jsonschema.Schema, field reflect.StructField, value reflect.Value) {
	typ := field.Type
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if m := rangeText.FindStringSubmatch(prop.Description); m != nil && (typ.Kind() == reflect.Int || typ.Kind() == reflect.Float64) {
		prop.Minimum, prop.Maximum = json.Number(m[2]), json.Number(m[3])
		if m[1] != "" {
			prop.Minimum, prop.ExclusiveMinimum = "", json.Number(m[2])
		}
	}
	if typ.Kind() == reflect.Map {
		if key := mapType(typ.Key()); key != nil {
			prop.PropertyNames = key
		}
		// A pattern for every key says less than the values' schema.
		if prop.AdditionalProperties == nil || prop.AdditionalProperties == jsonschema.FalseSchema {
			for _, s := range prop.PatternProperties {
				prop.AdditionalProperties = s
			}
			prop.PatternProperties = nil
		}
	}
	switch field.Name {
	case "SessionPolicy":
		prop.Enum = []any{string(model.ShedHash)}
	case "CheckRegions":
		prop.Items.Enum = append(prop.Items.Enum, string(model.AllRegions))
	case "Type":
		if typ.Kind() == reflect.String && prop.Enum == nil {
			byName := &jsonschema.Schema{}
			for _, v := range model.RecordTypes {
				byName.Enum = append(byName.Enum, v)
			}
			prop.AnyOf = []*jsonschema.Schema{byName, {Pattern: "^TYPE[0-9]{1,5}$"}}
		}
	}
	switch value.Kind() {
	case reflect.Bool, reflect.Int, reflect.Float64, reflect.String:
		if value.IsZero() && value.Kind() != reflect.Bool {
			return
		}
		prop.Default = value.Interface()
	case reflect.Int64:
		if value.Type() == durationType && !value.IsZero() {
			prop.Default = model.Show(value.Interface())
		}
	}
}

// requiredKeys asks the validation which keys each struct cannot be without:
// those that it misses in an item without any.
func requiredKeys() map[string][]string {
	c := &model.Config{
		Listeners: []model.Listener{
			{},
			{Certificates: []model.CertificateFiles{{}}, TLSRoutes: []model.TLSRoute{{LoadBalancers: []model.WeightedLoadBalancer{{}}}}, Protocol: "tls"},
			{Protocol: "dns", DNS: model.DNSOptions{RateLimit: &model.DNSRateLimit{}}},
		},
		Monitors:      []model.Monitor{{}},
		MonitorGroups: []model.MonitorGroup{{}, {Members: []model.MonitorMember{{}}}},
		Pools:         []model.Pool{{}, {Endpoints: []model.Endpoint{{}}}},
		LoadBalancers: []model.LoadBalancer{{Rules: []model.Rule{{FixedResponse: &model.FixedResponse{}}}}},
		Zones:         []model.Zone{{}, {Name: "example.com", Records: []model.Record{{}}}},
	}
	c.SetDefaults()
	all := map[string][]string{}
	for _, p := range c.Validate() {
		if !strings.Contains(p.Text, "missing") || strings.Contains(p.Text, "missing: protocol") {
			continue
		}
		cut := strings.LastIndexByte(p.Path, '.')
		typ := typeAt(reflect.TypeFor[model.Config](), p.Path[:cut])
		if key := p.Path[cut+1:]; !slices.Contains(all[typ.Name()], key) {
			all[typ.Name()] = append(all[typ.Name()], key)
		}
	}
	for _, keys := range all {
		slices.Sort(keys)
	}
	return all
}

// typeAt returns the type of the value at a model path.
func typeAt(typ reflect.Type, path string) reflect.Type {
	for _, key := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if _, err := strconv.Atoi(key); err == nil {
			typ = typ.Elem()
			continue
		}
		typ = typ.Field(fieldsOf(typ).index[key]).Type
	}
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ
}

func TestSchemaIsComplete(t *testing.T) {
	s := buildSchema(t)
	for name, def := range s.Definitions {
		if def.AdditionalProperties != jsonschema.FalseSchema {
			t.Errorf("%s: additionalProperties is not false", name)
		}
		if def.Description == "" {
			t.Errorf("%s: no description", name)
		}
		for pair := def.Properties.Oldest(); pair != nil; pair = pair.Next() {
			if pair.Value.Description == "" {
				t.Errorf("%s.%s: no description", name, pair.Key)
			}
		}
	}
	for path, want := range map[string]string{
		"Monitor.interval":       `"default": "1m"`,
		"Monitor.type":           `"icmp_ping"`,
		"Monitor.retries":        `"maximum": 5`,
		"Endpoint.weight":        `"maximum": 1`,
		"Node.latitude":          `"minimum": -90`,
		"LoadBalancer.name":      `host name`,
		"AccessLog.sample":       `"exclusiveMinimum": 0`,
		"LoadBalancer.pop_pools": `"additionalProperties": {`,
		"Pool.check_regions":     `"ALL_REGIONS"`,
		"Record.type":            `"SSHFP"`,
	} {
		typ, key, _ := strings.Cut(path, ".")
		prop, _ := s.Definitions[typ].Properties.Get(key)
		text, err := json.MarshalIndent(prop, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("schema of %s = %s, want %s in it", path, text, want)
		}
	}
	required := map[string][]string{
		"Endpoint": {"address", "name"}, "Listener": {"address", "name", "protocol"}, "Pool": {"endpoints", "name"},
		"LoadBalancer": {"default_pools", "name"}, "Record": {"content", "name", "type"}, "Monitor": {"name"},
		"Zone": {"name"}, "DNSRateLimit": {"responses_per_second"}, "TLSRoute": {"hosts"}, "FixedResponse": {"status_code"}, "Rule": {"condition", "name"},
		"CertificateFiles": {"certificate", "key"}, "MonitorGroup": {"members", "name"}, "MonitorMember": {"monitor"}, "WeightedLoadBalancer": {"name"},
	}
	for name, keys := range required {
		if got := s.Definitions[name].Required; !slices.Equal(got, keys) {
			t.Errorf("%s requires %v, want %v", name, got, keys)
		}
	}
}

// What a comment promises, the validation holds to: one beyond the end of
// each range is refused at its place.
func TestRangesInCommentsAreEnforced(t *testing.T) {
	durations := regexp.MustCompile(`([0-9]+(?:ms|s|m|h)) to ([0-9]+(?:ms|s|m|h))`)
	s := buildSchema(t)
	checked := 0
	var visit func(v reflect.Value, path string, c *model.Config)
	visit = func(v reflect.Value, path string, c *model.Config) {
		for i := range v.NumField() {
			field, value := v.Type().Field(i), v.Field(i)
			key := strings.TrimPrefix(path+"."+field.Tag.Get("yaml"), ".")
			switch {
			case value.Kind() == reflect.Pointer && !value.IsNil() && value.Elem().Kind() == reflect.Struct:
				visit(value.Elem(), key, c)
			case value.Kind() == reflect.Struct && field.Type.PkgPath() == v.Type().PkgPath():
				visit(value, key, c)
			case value.Kind() == reflect.Slice && value.Len() > 0 && value.Index(0).Kind() == reflect.Struct && value.Type().Elem().PkgPath() == v.Type().PkgPath():
				visit(value.Index(0), key+"[0]", c)
			}
			prop, _ := s.Definitions[v.Type().Name()].Properties.Get(field.Tag.Get("yaml"))
			var beyond []reflect.Value
			if field.Type == durationType {
				m := durations.FindStringSubmatch(prop.Description)
				if m == nil {
					t.Errorf("%s: the comment has no range", key)
					continue
				}
				least, _ := time.ParseDuration(m[1])
				most, _ := time.ParseDuration(m[2])
				beyond = []reflect.Value{reflect.ValueOf(least - 1), reflect.ValueOf(most + 1)}
			} else if m := rangeText.FindStringSubmatch(prop.Description); m != nil && (value.Kind() == reflect.Int || value.Kind() == reflect.Float64 || value.Kind() == reflect.Pointer) {
				least, _ := strconv.ParseFloat(m[2], 64)
				most, _ := strconv.ParseFloat(m[3], 64)
				typ := field.Type
				if typ.Kind() == reflect.Pointer {
					typ = typ.Elem()
				}
				for _, f := range []float64{least - 1, most + 1} {
					x := reflect.ValueOf(f).Convert(typ)
					if field.Type.Kind() == reflect.Pointer {
						p := reflect.New(typ)
						p.Elem().Set(x)
						x = p
					}
					beyond = append(beyond, x)
				}
			}
			old := reflect.ValueOf(value.Interface())
			for _, x := range beyond {
				value.Set(x)
				found := slices.ContainsFunc(c.Validate(), func(p model.Problem) bool { return p.Path == key && !p.Warning })
				if !found {
					t.Errorf("%s = %v is accepted, against its comment: %s", key, model.Show(reflect.Indirect(x).Interface()), prop.Description)
				}
				checked++
			}
			if len(beyond) > 0 {
				value.Set(old)
			}
		}
	}
	doc, err := Parse("a.yaml", []byte(everyStruct), "/")
	if err != nil {
		t.Fatal(err)
	}
	visit(reflect.ValueOf(doc.Config).Elem(), "", doc.Config)
	if checked < 80 {
		t.Errorf("checked %d ends of ranges, want more than 80", checked)
	}
}

// everyStruct has each struct with a range in it once.
const everyStruct = `
listeners:
  - {name: web, address: ":80", protocol: http}
  - {name: dns, address: ":53", protocol: dns, dns: {rate_limit: {responses_per_second: 10}}}
  - {name: sni, address: ":443", protocol: tls_passthrough, tls_routes: [{hosts: [x.org], load_balancers: [{name: lb}]}]}
monitors: [{name: m}]
pools: [{name: p, monitor: m, endpoints: [{name: e, address: "192.0.2.1"}]}]
load_balancers:
  - name: lb
    proxied: true
    default_pools: [p]
    rules: [{name: r, condition: "true", fixed_response: {status_code: 404}}]
zones: [{name: example.com, nameservers: [ns.example.net], records: [{name: a, type: A, content: 192.0.2.1}]}]
`

// The reference page of every key.
func TestReferenceIsFresh(t *testing.T) {
	fresh(t, "../../docs/configuration.md", reference(t))
}

func reference(t *testing.T) []byte {
	s := buildSchema(t)
	var b bytes.Buffer
	b.WriteString(referenceHead)
	paths := map[string]string{}
	for _, typ := range modelTypes() {
		def := s.Definitions[typ.Name()]
		path := paths[typ.Name()]
		if path == "" {
			fmt.Fprintf(&b, "\n## The file\n\n")
		} else {
			fmt.Fprintf(&b, "\n## `%s`\n\n", path)
		}
		fmt.Fprintf(&b, "%s\n\n| key | value | what it is |\n| --- | --- | --- |\n", sentence(typ, def.Description))
		for i := range typ.NumField() {
			field := typ.Field(i)
			key := field.Tag.Get("yaml")
			prop, _ := def.Properties.Get(key)
			name := "`" + key + "`"
			if slices.Contains(def.Required, key) {
				name += " (required)"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, kindText(field.Type), strings.ReplaceAll(prop.Description, "|", "\\|"))
			elem, suffix := field.Type, ""
			for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
				if elem.Kind() == reflect.Slice {
					suffix += "[]"
				}
				elem = elem.Elem()
			}
			if _, ok := s.Definitions[elem.Name()]; ok && paths[elem.Name()] == "" {
				paths[elem.Name()] = strings.TrimPrefix(path+"."+key+suffix, ".")
			}
		}
	}
	return b.Bytes()
}

// sentence turns a type's comment into one that does not begin with the name
// of a Go type.
func sentence(typ reflect.Type, comment string) string {
	for _, verb := range []string{" is ", " are ", " says ", " holds ", " names ", " writes ", " bound ", " sends ", " replace ", " changes ", " turns "} {
		if rest, ok := strings.CutPrefix(comment, typ.Name()+verb); ok {
			if verb == " is " || verb == " are " {
				return strings.ToUpper(rest[:1]) + rest[1:]
			}
			return strings.ToUpper(verb[1:2]) + verb[2:] + rest
		}
	}
	return comment
}

func kindText(typ reflect.Type) string {
	if e, ok := reflect.Zero(typ).Interface().(interface{ Values() []string }); ok {
		return "`" + strings.Join(e.Values(), "` `") + "`"
	}
	switch typ {
	case durationType:
		return "duration"
	case addrType:
		return "IP address"
	case prefixType:
		return "IP prefix"
	case reflect.TypeFor[model.Region]():
		return "region code"
	case reflect.TypeFor[model.Country]():
		return "country code"
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return kindText(typ.Elem())
	case reflect.Slice:
		return "list of: " + kindText(typ.Elem())
	case reflect.Map:
		return kindText(typ.Key()) + " to " + kindText(typ.Elem())
	case reflect.Bool:
		return "`true` `false`"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	default:
		return "mapping"
	}
}

const referenceHead = `# Configuration reference

One YAML file declares everything. It is used whole or not at all: ` + "`fairlead check`" + `
reports all errors at once, each as ` + "`file:line:column: what is wrong: what was expected`" + `.

- Unknown keys, duplicate keys and references to things that do not exist are errors.
- A duration is ` + "`200ms`, `5s`, `1h30m`" + ` (units ms, s, m, h) or a bare number of seconds.
- Relative file names start at the directory of the file.
- A key without a value is the same as a key that is left out.
- Anchors and aliases may stand for whole values; merge keys (` + "`<<`" + `) and tags are refused.
- ` + "`fairlead schema`" + ` prints a JSON Schema for editors.

This page is generated from the comments of the types in internal/model.
`
