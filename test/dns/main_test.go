package dns_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"fairlead/internal/loop/looptest"
)

// TestMain looks whether anything in a node blocks an event loop.
func TestMain(m *testing.M) {
	watch := looptest.Every(10 * time.Millisecond)
	code := m.Run()
	for _, stack := range watch.Stop() {
		fmt.Fprintf(os.Stderr, "an event loop is blocked by\n%s\n", stack)
		code = max(code, 1)
	}
	os.Exit(code)
}
