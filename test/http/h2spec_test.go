package http_test

import (
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead/test/lab"
)

// h2specEnv names the h2spec program, for systems where tools/h2spec cannot be
// built.
const h2specEnv = "FAIRLEAD_H2SPEC"

// h2spec returns the program, which the go command builds when the modules of
// tools/h2spec have been fetched (`make h2spec` fetches them).
func h2spec(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(h2specEnv); path != "" {
		return path
	}
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join("..", "..", "tools", "h2spec"), "tool", "-n", "h2spec")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off") // a test fetches nothing
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("h2spec is not there: run `make h2spec`, or name it in %s (%v)", h2specEnv, err)
	}
	return strings.TrimSpace(string(out))
}

// h2specReport is what matters here of the report that h2spec writes. What
// failed stands in error, as h2spec tells its own failures from others wrongly.
type h2specReport struct {
	Suites []struct {
		Name  string `xml:"name,attr"`
		Cases []struct {
			Name    string    `xml:"classname,attr"`
			Skipped *struct{} `xml:"skipped"`
			Failure string    `xml:"failure"`
			Error   string    `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// A listener passes every case of h2spec, the strict one included, which wants
// a GOAWAY before a connection is closed for an error.
func TestH2spec(t *testing.T) {
	program := h2spec(t)
	for _, engine := range []string{"loop", "goroutine"} {
		t.Run(engine, func(t *testing.T) {
			t.Setenv("FAIRLEAD_IO", engine)
			runH2spec(t, program)
		})
	}
}

func runH2spec(t *testing.T, program string) {
	// Flow control is tried on the body of an answer, which a window of one
	// byte must cut up.
	endpoint := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "a body that is longer than one byte")
	}))
	cert := lab.NewCA(t).Issue("127.0.0.1")
	// h2spec asks for the address that it connects to.
	n := lab.Start(t, fmt.Sprintf(`
access_log: {output: %q}
listeners: [{name: web, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]}]
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: 127.0.0.1, proxied: true, default_pools: [p]}]
`, filepath.Join(t.TempDir(), "access.log"), cert.CertFile, cert.KeyFile, endpoint))
	_, port, err := net.SplitHostPort(n.Addr("web"))
	if err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(t.TempDir(), "report.xml")
	began := time.Now()
	out, runErr := exec.CommandContext(t.Context(), program,
		"--tls", "--insecure", "--port", port, "--timeout", "5", "--strict", "--junit-report", file).CombinedOutput()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("h2spec ended with %v and no report: %v\n%s", runErr, err, out)
	}
	var report h2specReport
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatalf("report of h2spec: %v\n%s", err, out)
	}
	cases, failed := 0, 0
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			cases++
			name := suite.Name + ": " + c.Name
			switch {
			case c.Skipped != nil:
				t.Errorf("%s: skipped, want it tried", name)
			case c.Failure != "" || c.Error != "":
				failed++
				t.Errorf("%s:\n%s", name, strings.TrimSpace(c.Failure+c.Error))
			}
		}
	}
	t.Logf("%d cases in %v", cases, time.Since(began).Round(time.Millisecond))
	// That many there are: a report of nothing must not pass.
	if want := 146; cases < want {
		t.Errorf("%d cases, want %d", cases, want)
	}
	if runErr != nil && failed == 0 {
		t.Errorf("h2spec ended with %v\n%s", runErr, out)
	}
}
