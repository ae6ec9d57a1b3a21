package http_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairlead/test/lab"
)

// Of ten endpoints one is removed: its sessions move, each to one place, and no
// other session does, whatever it is known by.
func TestRemovalOfOneOfTen(t *testing.T) {
	t.Parallel()
	const (
		clients = 300
		gone    = "D"
	)
	names := strings.Split("ABCDEFGHIJ", "")
	addrs := named(t, names...)
	yaml := func(affinity, but string) string {
		var list []string
		for i, name := range names {
			if name != but {
				list = append(list, fmt.Sprintf("{name: %s, address: %q}", name, addrs[i]))
			}
		}
		return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http, trusted_proxies: [127.0.0.0/8]}]
pools: [{name: p, endpoints: [%s]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], %s}]
`, strings.Join(list, ", "), host, affinity)
	}
	for _, c := range []struct {
		name, affinity string
		byAddress      bool // each client has an address of its own
		travels        bool // after its first request it comes from another one, that of all
		keepsCookies   bool
	}{
		{"cookie", "session_affinity: cookie", false, false, true},
		{"ip_cookie", "session_affinity: ip_cookie", true, false, true},
		{"ip_cookie, from other addresses", "session_affinity: ip_cookie", true, true, true},
		{"ip_cookie, cookies dropped", "session_affinity: ip_cookie", true, false, false},
		{"header", "session_affinity: header, session_affinity_attributes: {headers: [X-User]}", false, false, false},
		{"client_ip", "session_affinity: client_ip", true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := lab.Start(t, yaml(c.affinity, ""))
			s := server{Node: n, addr: n.Addr("web")}
			cl := s.client(t, v1)
			jars := make([]string, clients)
			first := true
			ask := func(i int) string {
				req, _ := http.NewRequest("GET", s.url("/"), nil)
				req.Header.Set("X-User", fmt.Sprint("user-", i))
				if c.byAddress && (first || !c.travels) {
					req.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.%d.%d", i/250, 1+i%250))
				}
				if jars[i] != "" {
					req.Header.Set("Cookie", jars[i])
				}
				res, err := cl.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				equal(t, "status", res.StatusCode, 200)
				for _, cookie := range res.Cookies() {
					if cookie.Name == sessionCookie && c.keepsCookies {
						jars[i] = pair(cookie)
					}
				}
				return res.Header.Get("X-Endpoint")
			}
			round := func() (at []string) {
				for i := range clients {
					at = append(at, ask(i))
				}
				return at
			}
			homes := round()
			first = false
			if !slices.Equal(round(), homes) {
				t.Fatal("sessions move though nothing has changed")
			}
			n.Write(yaml(c.affinity, gone))
			n.AwaitRevision(2)
			after := round()
			moved := map[string]int{}
			for i, home := range homes {
				switch {
				case home == gone && (after[i] == gone || after[i] == ""):
					t.Errorf("client %d is at %q, which is removed", i, after[i])
				case home == gone:
					moved[after[i]]++
				case after[i] != home:
					t.Errorf("client %d moved from %s to %s, though only %s is removed", i, home, after[i], gone)
				}
			}
			if len(moved) == 0 {
				t.Errorf("nobody was at %s", gone)
			}
			if !slices.Equal(round(), after) {
				t.Error("sessions move again, though nothing more has changed")
			}
			t.Logf("moved from %s to %v", gone, moved)
		})
	}
}
