package config

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// schemaCheck is as much of a JSON Schema validator as our schema needs. It
// fails on keywords that it does not know, so that none is skipped.
type schemaCheck struct {
	defs map[string]any
	errs []string
}

func (c *schemaCheck) errorf(at, format string, args ...any) {
	c.errs = append(c.errs, at+": "+fmt.Sprintf(format, args...))
}

func (c *schemaCheck) value(at string, schema map[string]any, v any) {
	for keyword, arg := range schema {
		switch keyword {
		case "$schema", "$defs", "title", "description", "default", "format":
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/$defs/")
			c.value(at, c.defs[name].(map[string]any), v)
		case "type":
			if got := jsonType(v); got != arg && !(got == "integer" && arg == "number") {
				c.errorf(at, "is %s, want %v", got, arg)
			}
		case "enum":
			if !slices.Contains(arg.([]any), v) {
				c.errorf(at, "%v is not in the enum", v)
			}
		case "pattern":
			if s, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(s) {
				c.errorf(at, "%q does not match %s", s, arg)
			}
		case "minimum", "maximum", "exclusiveMinimum":
			f, ok := v.(float64)
			limit := arg.(float64)
			if ok && (keyword == "minimum" && f < limit || keyword == "maximum" && f > limit || keyword == "exclusiveMinimum" && f <= limit) {
				c.errorf(at, "%v is beyond the %s %v", f, keyword, limit)
			}
		case "properties", "additionalProperties", "propertyNames", "required":
			c.object(at, keyword, arg, schema, v)
		case "items":
			list, _ := v.([]any)
			for i, e := range list {
				c.value(fmt.Sprintf("%s[%d]", at, i), arg.(map[string]any), e)
			}
		case "oneOf", "anyOf":
			fit := 0
			for _, s := range arg.([]any) {
				sub := schemaCheck{defs: c.defs}
				sub.value(at, s.(map[string]any), v)
				if len(sub.errs) == 0 {
					fit++
				}
			}
			if fit == 0 || keyword == "oneOf" && fit > 1 {
				c.errorf(at, "%v fits %d of %s", v, fit, keyword)
			}
		default:
			c.errorf(at, "keyword %s is not known to this test", keyword)
		}
	}
}

func (c *schemaCheck) object(at, keyword string, arg any, schema map[string]any, v any) {
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	if keyword == "required" {
		for _, key := range arg.([]any) {
			if _, ok := object[key.(string)]; !ok {
				c.errorf(at, "lacks %s", key)
			}
		}
		return
	}
	known, _ := schema["properties"].(map[string]any)
	for key, e := range object {
		at := at + "." + key
		property, isKnown := known[key]
		switch {
		case keyword == "propertyNames":
			c.value(at, arg.(map[string]any), key)
		case keyword == "properties" && isKnown:
			c.value(at, property.(map[string]any), e)
		case keyword == "additionalProperties" && !isKnown && arg == false:
			c.errorf(at, "unknown key")
		case keyword == "additionalProperties" && !isKnown:
			c.value(at, arg.(map[string]any), e)
		}
	}
}

func jsonType(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	default:
		return "null"
	}
}

// checkSchema returns what our schema says about a file.
func checkSchema(t *testing.T, text string) []string {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	c := schemaCheck{defs: schema["$defs"].(map[string]any)}
	c.value("", schema, v)
	return c.errs
}

func TestExamplesFitTheSchema(t *testing.T) {
	for _, name := range examples {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range checkSchema(t, string(data)) {
			t.Errorf("%s: %s", filepath.Base(name), e)
		}
	}
}

// An editor sees misprints as it sees them here.
func TestSchemaRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"listne: []", ".listne: unknown key"},
		{"monitors: [{name: m, type: htpp}]", ".monitors[0].type: htpp is not in the enum"},
		{"monitors: [{name: m, timeout: 5d}]", ".monitors[0].timeout: 5d fits 0 of oneOf"},
		{"monitors: [{name: m, timeout: -5}]", ".monitors[0].timeout: -5 fits 0 of oneOf"},
		{"monitors: [{name: m, retries: 6}]", ".monitors[0].retries: 6 is beyond the maximum 5"},
		{"monitors: [{name: m, retries: 1.5}]", ".monitors[0].retries: is number, want integer"},
		{"monitors: [{type: tcp}]", ".monitors[0]: lacks name"},
		{"pools: [{name: p, endpoints: [{name: e, address: x, weight: 1.5}]}]", ".pools[0].endpoints[0].weight: 1.5 is beyond the maximum 1"},
		{"node: {region: EUE}", ".node.region: EUE is not in the enum"},
		{"load_balancers: [{name: a, default_pools: [p], region_pools: {EUE: [p]}}]", ".load_balancers[0].region_pools.EUE: EUE is not in the enum"},
		{"load_balancers: [{name: a, default_pools: [p], country_pools: {gb: [p]}}]", `.load_balancers[0].country_pools.gb: "gb" does not match ^[A-Z]{2}$`},
		{"load_balancers: [{name: a, default_pools: p}]", ".load_balancers[0].default_pools: is string, want array"},
		{"access_log: {sample: 0}", ".access_log.sample: 0 is beyond the exclusiveMinimum 0"},
	} {
		if errs := checkSchema(t, c.text); !slices.Contains(errs, c.want) {
			t.Errorf("schema of %s: %q, want %q among them", c.text, errs, c.want)
		}
	}
}
