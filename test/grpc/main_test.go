package grpc

import (
	"testing"

	"fairlead/internal/loop/looptest"
)

// TestMain looks whether anything in a node blocks an event loop.
func TestMain(m *testing.M) { looptest.Main(m) }
