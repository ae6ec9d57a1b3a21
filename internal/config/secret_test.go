package config

import (
	"strings"
	"testing"
)

// TestSecretsAreNotShown: errors go to the log and to /status, so that values
// which may be credentials are told by their type only.
func TestSecretsAreNotShown(t *testing.T) {
	const monitor, endpoint, state = "monitors:\n  - name: m\n    ",
		"pools:\n  - name: p\n    endpoints:\n      - name: e\n        address: 192.0.2.1\n        ",
		"state:\n  endpoints: [https://etcd:2379]\n  username: u\n  "
	for _, c := range []struct {
		name, input string
		want        string // is said
	}{
		{"string for a list", monitor + `header: {Authorization: "Bearer s3cret"}`, "header.Authorization: want a list, got a string"},
		{"plain string for a list", monitor + `header: {Authorization: Bearer s3cret}`, "header.Authorization: want a list, got a string"},
		{"number for a list", monitor + `header: {X-Key: 53077}`, "header.X-Key: want a list, got a number"},
		{"number in the list", monitor + `header: {X-Key: [53077]}`, "header.X-Key[0]: want a string, got a number; put it in quotes"},
		{"boolean in the list", monitor + `header: {X-Key: [true]}`, "header.X-Key[0]: want a string, got a boolean; put it in quotes"},
		{"mapping in the list", monitor + `header: {X-Key: [{s3cret: s3cret}]}`, "header.X-Key[0]: want a string, got a mapping"},
		{"mapping for a list", monitor + `header: {X-Key: {s3cret: s3cret}}`, "header.X-Key: want a list, got a mapping"},
		{"block of text", monitor + "header:\n      X-Key: |\n        s3cret", "header.X-Key: want a list, got a block of text"},
		{"string for the headers", monitor + `header: "Authorization: Bearer s3cret"`, "header: want a mapping of keys to values, got a string"},
		{"line for a key", monitor + `header: {"Authorization: Bearer s3cret": [x]}`, "header: want a header name of letters, digits and -"},
		{"line for a key, no list", monitor + `header: {"Authorization: Bearer s3cret": x}`, "header: want a list, got a string"},
		{"line for a key, twice", monitor + `header: {"A: s3cret": [x], "A: s3cret": [y]}`, `duplicate key "..."`},
		{"line for a key, in two spellings", monitor + `header: {"A: s3cret": [x], "a: s3cret": [y]}`, "header: want a header name"},
		{"no space behind the colon", monitor + `header: {Authorization:s3cret}`, "want a space behind the colon"},
		{"space at the end", monitor + `header: {Authorization: ["Bearer s3cret "]}`, "header.Authorization[0]: want no space at the ends"},
		{"control character", monitor + `header: {Authorization: ["Bearer s3cret\n"]}`, "header.Authorization[0]: want no"},
		{"alias", monitor + `header: {Authorization: [*s3cret]}`, "header.Authorization[0]: alias without an anchor"},
		{"alias to an anchor elsewhere", "node: {name: &n s3cret}\n" + monitor + `header: {Authorization: *n}`, "header.Authorization: want a list, got a string"},
		{"tag", monitor + `header: {Authorization: [!s3cret ]}`, "tags are not supported"},
		{"in two spellings", monitor + `header: {X-A: [s3cret], x-a: [s3cret]}`, "duplicate of"},
		{"name with a space", monitor + `header: {Bad Name: [s3cret]}`, "header.Bad Name: want a header name"},
		{"name that is not for monitors", monitor + `header: {Connection: [s3cret]}`, "cannot be set"},
		{"endpoint's header", endpoint + `header: {Authorization: Bearer s3cret}`, "header.Authorization: want a list, got a string"},
		{"endpoint's header that is not Host", endpoint + `header: {Authorization: [Bearer s3cret]}`, "header.Authorization: want Host only"},
		{"endpoint's line for a key", endpoint + `header: {"A: s3cret": [x]}`, "header: want Host only"},
		{"password that is a number", state + `password: 53077`, "state.password: want a string, got a number; put it in quotes"},
		{"password that is a list", state + `password: [s3cret]`, "state.password: want a string, got a list"},
		{"password that is an alias", state + `password: *s3cret`, "state.password: alias without an anchor"},
		{"password that is a tag", state + `password: !s3cret`, "tags are not supported"},
		{"password under another name", state + `pasword: s3cret`, `unknown key "pasword"`},
		{"password in a URL", "state: {endpoints: [\"https://u:s3cret@etcd:2379\"]}", "state.endpoints[0]: want a URL"},
		{"password in a URL that is none", "state: {endpoints: [\"https://u:s3cret@etcd:%zz\"]}", "state.endpoints[0]: want a URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := said(t, c.input+"\n")
			if !strings.Contains(got, c.want) {
				t.Errorf("said:\n%s\nwant %s", got, c.want)
			}
			if strings.Contains(got, "s3cret") || strings.Contains(got, "53077") {
				t.Errorf("shows the value:\n%s", got)
			}
		})
	}
}

// TestHostIsShown: the one header that is no credential is told as it stands.
func TestHostIsShown(t *testing.T) {
	const monitor = "monitors:\n  - name: m\n    header: {"
	for _, c := range []struct{ name, input, want string }{
		{"no list", monitor + `Host: www.example.com}`, `header.Host: want a list, got the string "www.example.com"`},
		{"small letters", monitor + `host: www.example.com}`, `header.host: want a list, got the string "www.example.com"`},
		{"no name", monitor + `Host: ["http://www.example.com/"]}`, `header.Host[0] "http://www.example.com/": want`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := said(t, c.input+"\n"); !strings.Contains(got, c.want) {
				t.Errorf("said:\n%s\nwant %s", got, c.want)
			}
		})
	}
}
