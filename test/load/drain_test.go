package loadtest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairlead/test/lab"
	"fairlead/test/process"
)

const syscallTERM = syscall.SIGTERM

// SIGTERM under load: every request that was accepted is answered, new
// connections are refused, the node ends by itself.
func TestTerminate(t *testing.T) {
	ca := lab.NewCA(t)
	cert := ca.Issue(host)
	for round := range scaled(3, 10) {
		a := serve(t, nil)
		p := process.Start(t, fmt.Sprintf(`
shutdown_timeout: 8s
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]}
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, cert.CertFile, cert.KeyFile, a))
		web, tls := p.Addr("web"), p.Addr("secure")

		// Requests that take long are answered, all of them.
		var slow sync.WaitGroup
		for i := range 8 {
			c := &client{dial: plain(web)}
			if i%2 == 1 {
				c.dial = secure(tls, ca.Client(host, "http/1.1"))
			}
			slow.Go(func() {
				defer c.close()
				if err := expect("GET", "/wait?for=1500ms", "")(c, 0); err != nil {
					t.Errorf("round %d: slow request: %v", round, err)
				}
			})
		}
		// Whoever has a connection and uses it is told to close it by an
		// answer; only whoever connects anew is refused.
		term := make(chan struct{})
		busyClients := func(dial dialer) work {
			return func(c *client, i int) error {
				err := mixed(c, i)
				if err == nil {
					return nil
				}
				select {
				case <-term:
				default:
					return err
				}
				if errors.Is(err, errConnect) {
					time.Sleep(10 * time.Millisecond)
					return nil
				}
				return err
			}
		}
		loads := []*load{
			startLoad(t, "HTTP/1.1", 32, plain(web), 0, busyClients(nil)),
			startLoad(t, "HTTP/1.1 over TLS", 8, secure(tls, ca.Client(host, "http/1.1")), 0, busyClients(nil)),
		}
		lab.Await(t, "slow requests", func() bool { return p.Metric("fairlead_pool_open_requests") >= 8 })
		busy(t, loads[0])
		began := time.Now()
		close(term)
		p.Signal(syscall.SIGTERM)
		lab.Await(t, "new connections to be refused", func() bool {
			c, err := net.Dial("tcp", web)
			if err == nil {
				c.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
		slow.Wait()
		if code := p.AwaitExit(10 * time.Second); code != 0 {
			t.Errorf("exit status %d", code)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("node ended after %v, although its requests took 1.5s", took)
		}
		for _, l := range loads {
			l.wantNoFailure()
		}
		if n := p.Count("connections were cut at the end of shutdown_timeout"); n > 0 {
			t.Error("connections were cut")
		}
	}
}

// A second SIGTERM ends the node at once, whatever hangs.
func TestTerminateAtOnce(t *testing.T) {
	t.Parallel()
	a := serve(t, nil)
	p := process.Start(t, fmt.Sprintf(`
shutdown_timeout: 60s
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, a))
	c := lab.Dial(t, p.Addr("web"))
	c.Send("GET /wait?for=1m HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	lab.Await(t, "the request", func() bool { return p.Metric("fairlead_pool_open_requests") == 1 })
	p.Signal(syscall.SIGTERM)
	lab.Await(t, "the shutdown to begin", func() bool { return p.Count("shutting down") > 0 })
	p.Signal(syscall.SIGTERM)
	if code := p.AwaitExit(3 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// Connections of HTTP/2 are told to go as well, those that began under settings
// that a reload replaced included.
func TestTerminateHTTP2AfterReload(t *testing.T) {
	ca := lab.NewCA(t)
	configs := reloadConfigs(ca.Issue(host), [2]string{serve(t, nil), serve(t, nil)})
	p := process.Start(t, configs[0])
	l := startHTTP2Load(t, 2, p.Addr("secure"), ca.Client(host, "h2"))
	busy(t, l)
	l.wantNoFailure()
	p.Reload(configs[1]) // other limits
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	if code := p.AwaitExit(8 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("node with idle connections only ended after %v", took)
	}
	if p.Count("connections were cut at the end of shutdown_timeout") > 0 {
		t.Error("idle connections were cut rather than told to go")
	}
}
