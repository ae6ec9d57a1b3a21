//go:build !linux

package loop

import "errors"

// bestEngine is what NewEngine makes when no kind is asked for.
const bestEngine = "goroutine"

// NewLoopEngine fails here: event loops are made of epoll.
func NewLoopEngine(Options) (Engine, error) {
	return nil, errors.New(`engine "loop" is for Linux only: use "goroutine"`)
}
