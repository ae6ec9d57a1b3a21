package taste

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layer says what one package may import of this module. Everything else is
// forbidden, for the reason given.
type layer struct {
	pkg string
	may []string
	why string
}

// layers lists every package, from low to high. A package imports only what
// stands above it in this list, and of that only what its row names.
var layers = []layer{
	{"internal/model", nil,
		"it is the vocabulary that everything else speaks, so it can depend on nothing"},

	// Leaves: one algorithm or mechanism each, which know nothing of pools.
	{"internal/h1", nil,
		"it turns bytes into messages and back, for whatever moves the bytes"},
	{"internal/h1/h1test", nil,
		"it holds messages as raw bytes, so that tests of any package can send them; no program links it"},
	{"internal/loop", nil,
		"it moves bytes and must not know what they mean"},
	{"internal/fields", []string{"internal/h1"},
		"it judges field sections and writes them down in HTTP/1.1, for both protocols that have such"},
	{"internal/h2", []string{"internal/h1", "internal/fields", "internal/loop"},
		"it carries messages over one connection; whose they are and where they go is for the planes"},
	{"internal/h3", []string{"internal/fields", "internal/loop"},
		"it carries messages over one connection, as h2 does; and only it knows QUIC"},
	{"internal/loop/looptest", nil,
		"it reads the stacks of loops as text, so that tests of any package can look for what blocks them; no program links it"},
	{"internal/pick", nil,
		"it is arithmetic over weights and hashes, which every plane shares"},
	{"internal/affinity", nil,
		"it seals which endpoint a session has; who chooses that, and what carries it, is not its business"},
	{"internal/load", nil,
		"it counts what is open; whoever reads the counts decides what they mean"},
	{"internal/resolve", nil,
		"it turns names into addresses for whoever asks"},
	{"internal/rules", []string{"internal/model"},
		"it tells whether an expression is true; whose expression it is and what follows from it is for the plan and the planes"},
	{"internal/perclient", nil,
		"it remembers addresses; what they may do, and what they have done, is for whoever accepts connections"},
	{"internal/proxyproto", nil,
		"it reads a header out of bytes, for whoever has accepted them"},
	{"internal/udp", nil,
		"it moves datagrams and must not know what they mean"},
	{"internal/dnswire", nil,
		"it turns DNS messages and records into bytes and back, for whoever answers or declares them"},
	{"internal/zone", []string{"internal/dnswire"},
		"it lays out records as parts of answers; what asks, and who chooses, is for the plan and the plane"},
	{"internal/telemetry", []string{"internal/model"},
		"everything reports to it: it would close a circle if it knew who does"},

	{"internal/geo/geotest", nil,
		"it writes databases of places, so that tests of any package need no vendor's; it shares nothing with what reads them, and no program links it"},
	{"internal/geo", []string{"internal/model", "internal/telemetry"},
		"it tells where an address is; what follows from that is for steering and rules"},
	{"internal/dnssec", []string{"internal/telemetry", "internal/dnswire"},
		"it signs what it is given with the keys that it is given; whose answers those are, and which keys when, is not its business"},

	{"internal/dnssec/keyring", []string{"internal/model", "internal/telemetry", "internal/dnssec"},
		"it decides which keys a zone has at what time; what they sign is for dnssec, and of the parent it knows only which DS records that has"},

	{"internal/certs", []string{"internal/model", "internal/telemetry"},
		"it loads the files that declarations name and reports their age; who serves or presents them is not its business"},
	{"internal/acme", []string{"internal/model", "internal/telemetry"},
		"it obtains certificates for names; who shows them, and what answers an authority, asks it by an interface of its own"},
	{"internal/config", []string{"internal/model", "internal/dnswire", "internal/dnssec"},
		"it reads and writes declarations; what they lead to is not its business, so that check and schema need nothing running; key files of zones are read by what uses them"},
	{"internal/health", []string{"internal/model", "internal/resolve"},
		"observed facts survive every plan, so they cannot be made of one"},
	{"internal/plan", []string{"internal/model", "internal/affinity", "internal/geo", "internal/health", "internal/load", "internal/pick", "internal/resolve", "internal/rules", "internal/certs", "internal/dnswire", "internal/zone"},
		"it is compiled from declarations and points at the tables of what is observed; planes use it, not the other way"},
	{"internal/steer", []string{"internal/model", "internal/geo", "internal/plan", "internal/health", "internal/load", "internal/pick"},
		"the choice is a function of the plan and the tables, so that all planes share it and a recorded one can be replayed"},

	// Planes: they know the engine and never each other.
	{"internal/httplb", []string{"internal/model", "internal/affinity", "internal/geo", "internal/rules", "internal/proxyproto", "internal/perclient", "internal/plan", "internal/steer", "internal/health", "internal/load", "internal/h1", "internal/fields", "internal/h2", "internal/h3", "internal/loop", "internal/telemetry", "internal/certs"},
		"a plane knows the engine that all planes share, the vocabulary, and no other plane; it neither reads files nor answers operators"},
	{"internal/dnslb", []string{"internal/model", "internal/geo", "internal/rules", "internal/steer", "internal/plan", "internal/dnswire", "internal/zone", "internal/dnssec", "internal/loop", "internal/udp", "internal/telemetry", "internal/certs", "internal/perclient"},
		"a plane knows the engine that all planes share, the vocabulary, and no other plane; it reads no file but its listeners' secrets"},
	{"internal/admin", []string{"internal/model", "internal/plan", "internal/health", "internal/load", "internal/resolve", "internal/telemetry"},
		"it shows the plan and the tables as they are, and must not reach into the planes to do so"},

	{"internal/node", []string{"internal/*"},
		"it puts everything together; only commands import it"},
	{"cmd/fairlead", []string{"internal/*"},
		"a command reads flags and starts a node"},

	{"bench", nil,
		"it measures the binary from outside, as it measures the others"},
	{"test/lab", []string{"internal/node", "internal/admin"},
		"it runs whole nodes for tests, and knows them by what operators see; no program links it"},
	{"test/pebble", nil,
		"it runs an authority for tests, which knows nothing of who asks it; no program links it"},
	{"test/acme", []string{"test/lab", "test/pebble", "internal/loop/looptest"},
		"it holds only tests, which see certificates and proofs from outside"},
	{"test/http", []string{"test/lab", "internal/geo/geotest", "internal/h1/h1test", "internal/loop/looptest"},
		"it holds only tests, which see the HTTP plane from outside"},
	{"test/grpc", []string{"test/lab", "internal/loop/looptest"},
		"it holds only tests, which see gRPC through the HTTP plane from outside"},
	{"test/process", []string{"test/lab"},
		"it runs the binary for tests and sees only what an operator sees; no program links it"},
	{"test/browser", []string{"test/lab", "test/process"},
		"it holds only tests, which see what a browser sees of the binary"},
	{"test/dns", []string{"test/lab", "internal/geo/geotest", "internal/loop/looptest"},
		"it holds only tests, which see the DNS plane from outside"},
	{"test/load", []string{"test/lab", "test/process", "internal/h1/h1test"},
		"it runs the binary as a process and sees only what an operator sees"},
	{"test/taste", nil,
		"it reads the tree as text, so that it runs when the tree does not build"},
}

// standard lists what some packages may not import of the standard library.
var standard = []struct {
	pkg   string
	never []string
	why   string
}{
	{"internal/model", []string{"net/http", "os", "log/slog"},
		"declarations are values: they read no file and open no socket"},
	{"internal/h1", []string{"net", "net/http", "bufio", "io", "sync"},
		"it works on slices that its caller borrows and must run unchanged in a goroutine and in a fiber: no connection, no reader, no lock"},
	{"internal/steer", []string{"net", "net/http", "os", "log/slog", "context"},
		"it is pure: no socket, no file, no log"},
	{"internal/pick", []string{"net", "net/http", "os", "log/slog", "context", "time"},
		"it is pure: no socket, no file, no clock"},
	{"internal/rules", []string{"net", "net/http", "os", "log/slog", "context", "time"},
		"it is pure: what it knows of a request it asks an Env for, the time of day included"},
}

// libraries lists who may import which module of others. Behind one package a
// library can be replaced.
var libraries = []struct {
	module string
	users  []string
	why    string
}{
	{"github.com/goccy/go-yaml", []string{"internal/config"}, "YAML is one way of declaring things; only its reader knows it"},
	{"github.com/invopop/jsonschema", []string{"internal/config"}, "the schema describes what config reads"},
	{"github.com/miekg/dns", []string{"internal/resolve", "internal/dnswire", "internal/dnssec/keyring", "test/dns"}, "it is kept for its fixes, not for its interface: each further user is one to move later"},
	{"github.com/prometheus", []string{"internal/telemetry"}, "counting is done by our own counters; Prometheus only reads them"},
	{"github.com/cespare/xxhash/v2", []string{"internal/pick"}, "nodes must agree on hashes: there is one place that decides which"},
	{"google.golang.org/grpc", []string{"internal/health", "test/grpc"}, "only the health check speaks gRPC, and the test of what carries it"},
	{"github.com/go-ldap/ldap/v3", []string{"internal/health"}, "only a probe speaks LDAP, and no more of it than a bind or one search"},
	{"github.com/go-asn1-ber/asn1-ber", []string{"internal/health"}, "a probe asks for StartTLS itself, as the LDAP library tells in a text what is wrong with a certificate"},
	{"github.com/oschwald/maxminddb-golang/v2", []string{"internal/geo"}, "MMDB is one form of databases of places; only their reader knows it"},
	{"go.uber.org/goleak", []string{"test/lab"}, "tests look for what is left running; programs do not"},
	{"golang.org/x/net", []string{"internal/h2", "internal/health", "internal/admin", "internal/udp"}, "our HTTP/2 takes HPACK from it; portable UDP sockets learn from it where a datagram came to; endpoints are probed with it; the admin server bounds its connections"},
	{"github.com/quic-go", []string{"internal/h3", "test/http"}, "QUIC is what HTTP/3 goes over, with QPACK: behind h3 it can be replaced, as its interface changes with each release; tests have a client of it"},
	{"golang.org/x/sys", []string{"internal/loop", "internal/udp", "internal/node"}, "system calls belong to what moves bytes, and to the watch over the configuration file"},
	{"golang.org/x/term", []string{"cmd/fairlead"}, "only the command line has a person before it"},
	{"github.com/caddyserver/certmagic", []string{"internal/acme"}, "it decides when certificates are renewed and how they are stored; listeners only see what is in memory"},
	{"github.com/mholt/acmez/v3", []string{"internal/acme"}, "the protocol's client that certmagic uses; used directly, it opens no port and asks nobody on standard input"},
	{"go.uber.org/zap", []string{"internal/acme"}, "certmagic logs with it; what it says is handed to slog there"},
	{"golang.org/x/crypto", []string{"internal/acme", "test/pebble"}, "OCSP responses are read to know whether they still hold, and made by the authority of tests"},
	{"github.com/letsencrypt/pebble/v2", []string{"test/pebble"}, "the authority of tests is one that speaks ACME in full, and not ours"},
	{"github.com/letsencrypt/challtestsrv", []string{"test/pebble"}, "it is the name server that Pebble is tested with"},
	{"github.com/alecthomas/kong", []string{"cmd/fairlead"}, "only the command line has a command line"},
}

func TestImports(t *testing.T) {
	rank := make(map[string]int)
	for i, l := range layers {
		rank[l.pkg] = i
	}
	exists := make(map[string]bool)
	for _, p := range packages(t) {
		exists[p.dir] = true
		i, listed := rank[p.dir]
		if !listed {
			t.Errorf("%s is not in layers (test/taste/imports_test.go): add it where it belongs, with what it may import and why not more", p.dir)
			continue
		}
		for _, f := range p.code() {
			for _, spec := range f.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				checkImport(t, layers[i], position(spec), imported, rank)
			}
		}
	}
	for _, l := range layers {
		if !exists[l.pkg] {
			t.Errorf("layers lists %s, which has no Go file: take its row out of test/taste/imports_test.go", l.pkg)
		}
	}
	for _, s := range standard {
		if !exists[s.pkg] {
			t.Errorf("standard lists %s, which has no Go file: take its row out of test/taste/imports_test.go", s.pkg)
		}
	}
}

func checkImport(t *testing.T, l layer, where, imported string, rank map[string]int) {
	t.Helper()
	ours, isOurs := strings.CutPrefix(imported, modulePath+"/")
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case isOurs:
		i, listed := rank[ours]
		if !listed || !allowed(l.may, ours) {
			t.Errorf("%s: %s may not import %s: %s", where, l.pkg, ours, l.why)
		} else if i >= rank[l.pkg] {
			t.Errorf("%s: %s imports %s, which stands below it in layers: move the row, or turn the import round", where, l.pkg, ours)
		}
	case !strings.Contains(first, "."):
		for _, s := range standard {
			if s.pkg == l.pkg && slices.Contains(s.never, imported) {
				t.Errorf("%s: %s may not import %s: %s", where, l.pkg, imported, s.why)
			}
		}
	default:
		for _, lib := range libraries {
			if imported == lib.module || strings.HasPrefix(imported, lib.module+"/") {
				if !slices.Contains(lib.users, l.pkg) {
					t.Errorf("%s: %s may not import %s, only %s: %s", where, l.pkg, imported, strings.Join(lib.users, ", "), lib.why)
				}
				return
			}
		}
		t.Errorf("%s: %s imports %s, which is not in libraries (test/taste/imports_test.go): add who may use it and why", where, l.pkg, imported)
	}
}

// allowed tells whether pkg is named in may; a name that ends in /* stands for
// everything below.
func allowed(may []string, pkg string) bool {
	for _, m := range may {
		if dir, ok := strings.CutSuffix(m, "*"); m == pkg || ok && strings.HasPrefix(pkg, dir) {
			return true
		}
	}
	return false
}
