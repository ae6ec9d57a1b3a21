package loadtest

import (
	"os"
	"testing"
	"time"

	"fairlead/test/process"
)

// soak asks for the long forms.
var soak = os.Getenv("FAIRLEAD_SOAK") != ""

// scaled returns a count, a size or a time for the form that runs. With the race
// detector everything is several times slower, so that counts are smaller.
func scaled[T int | int64 | time.Duration](short, long T) T {
	if soak {
		return long
	}
	if n, ok := any(short).(int); ok && process.Race {
		return any(max(n/3, 1)).(T)
	}
	return short
}

func TestMain(m *testing.M) {
	if addr := os.Getenv(endpointEnv); addr != "" {
		endpointMain(addr)
		return
	}
	os.Exit(process.Main(m))
}
