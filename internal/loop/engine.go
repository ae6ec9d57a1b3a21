package loop

import (
	"net/netip"
	"time"
)

// Engine is the machinery of a process's connections: drivers, and listeners
// whose connections are spread over them.
type Engine interface {
	// Name is what FAIRLEAD_IO calls this kind of engine.
	Name() string
	// Drivers returns the engine's drivers, by their index.
	Drivers() []Driver
	// Goroutines returns the driver of tasks that have to be goroutines, as those
	// of protocols whose library waits in its own ways. Where Drivers has such a
	// one it is that; otherwise it stands beside them, with the index that
	// follows theirs.
	Goroutines() Driver
	// Listen opens a TCP address; an invalid Addr is all addresses of both
	// families. Connections to it are made from now on and wait for Serve.
	// It fails with EADDRINUSE where anybody else has the address.
	Listen(at netip.AddrPort) (Listener, error)
	// StopDialling ends all dialling, under way and to come, with ErrStopped.
	StopDialling()
	// Stats returns what was counted. It may be called by anyone.
	Stats() EngineStats
	// Close ends the drivers. All listeners and tasks have ended before.
	Close()
}

// Listener is an open address. Its methods may be called by anyone.
type Listener interface {
	// Addr is the address as bound.
	Addr() netip.AddrPort
	// Serve gives each connection to accept, with the driver that it belongs
	// to, until the listener is closed. accept is called by a task of the driver
	// and must not wait. Nothing can be accepted while descriptors or memory
	// are short: trouble is told when that begins, and it is tried again.
	Serve(accept func(d Driver, c Conn), trouble func(error))
	// Drain refuses to be connected to any more, accepts what comes within
	// grace and what has come by then, and closes the listener. It returns at
	// once; Closed tells when that is done.
	Drain(grace time.Duration)
	// Close closes the listener; what was not accepted is reset.
	Close()
	// Closed is closed once nothing is accepted any more and the address is
	// free.
	Closed() <-chan struct{}
}
