package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// stopSignals returns a context that ends with the first SIGTERM or SIGINT,
// which asks for an orderly end, and one that ends with the second, which asks
// for an end at once. The commands that do not call it end with the first, as
// programs do.
func stopSignals() (stop, now context.Context) {
	stop, orderly := context.WithCancel(context.Background())
	now, atOnce := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // until the process ends
		<-signals
		orderly()
		<-signals
		atOnce()
	}()
	return stop, now
}
