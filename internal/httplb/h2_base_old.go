//go:build !go1.27

package httplb

import "net/http"

// baseConfig returns what ServeConn is to be given as BaseConfig. Without one
// the library would use defaults.
func baseConfig(h *http.Server) *http.Server { return h }
