package browser_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"fairlead/test/lab"
)

// chromium is a browser without a window that has opened one page.
type chromium struct {
	t      *testing.T
	home   string // its profile, and all else that it writes
	group  int    // of its processes
	exited chan struct{}
	output bytes.Buffer // complete once it has exited
	stop   func()
}

// chromiumPath returns where the browser is, or skips the test.
func chromiumPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Skip("chromium is not installed: make deps installs it")
	}
	return path
}

// open has a browser with a fresh profile open a page of host, which is at the loopback
// and shows the certificate. It runs until the test's end.
func open(t *testing.T, path, url string, cert lab.Certificate, flags ...string) *chromium {
	t.Helper()
	leaf, err := x509.ParseCertificate(cert.TLS.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	key := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	// Sockets are in it, whose paths may not be long.
	home, err := os.MkdirTemp("", "fairlead-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(append([]string{
		"--headless=new", "--user-data-dir=" + home,
		"--host-resolver-rules=MAP " + host + " 127.0.0.1, MAP * ~NOTFOUND", // and nothing outside is asked
		"--ignore-certificate-errors-spki-list=" + base64.StdEncoding.EncodeToString(key[:]),
		"--no-proxy-server",
		"--no-sandbox",                               // root may not have one
		"--disable-dev-shm-usage",                    // of which containers have too little
		"--enable-features=NetworkServiceInProcess2", // one process less that may not start in time
		"--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--disable-extensions", "--disable-sync", "--disable-breakpad", "--password-store=basic",
	}, flags...), url)...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+home)
	c := &chromium{t: t, home: home, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a group, as it has many processes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.group = cmd.Process.Pid
	go func() {
		defer close(c.exited)
		cmd.Wait()
	}()
	c.stop = sync.OnceFunc(c.end)
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("%q prints:\n%s", cmd.Args, c.output.String())
		}
	})
	return c
}

// end ends all its processes and removes what they wrote, once nobody writes any more.
func (c *chromium) end() {
	syscall.Kill(-c.group, syscall.SIGKILL)
	<-c.exited
	lab.Await(c.t, "the browser's processes to end", func() bool { return errors.Is(syscall.Kill(-c.group, 0), syscall.ESRCH) })
	if err := os.RemoveAll(c.home); err != nil {
		c.t.Errorf("the browser's profile: %v", err)
	}
}
