package loadtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// soak asks for the long forms.
var soak = os.Getenv("FAIRLEAD_SOAK") != ""

// scaled returns a count, a size or a time for the form that runs. With the race
// detector everything is several times slower, so that counts are smaller.
func scaled[T int | int64 | time.Duration](short, long T) T {
	if soak {
		return long
	}
	if n, ok := any(short).(int); ok && raceEnabled {
		return any(max(n/3, 1)).(T)
	}
	return short
}

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	if addr := os.Getenv(endpointEnv); addr != "" {
		endpointMain(addr)
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fairlead-load-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "fairlead")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "fairlead/cmd/fairlead")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
