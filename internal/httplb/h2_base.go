//go:build go1.27

package httplb

import "net/http"

// baseConfig returns what ServeConn is to be given as BaseConfig. Given the
// server that the library was configured with, it would make a copy for each
// connection, which Shutdown of the original does not reach.
func baseConfig(*http.Server) *http.Server { return nil }
