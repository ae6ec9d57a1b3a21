package admin

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Question is a request of which /explain tells what would become of it now.
type Question struct {
	Method, Host, Target string
	Lines                []string // of the head: "Name: value"
	Client               netip.Addr
	Secure, HTTP2, HTTP3 bool
}

// explain answers what would become of a request, as a tree in plain text.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Explain == nil {
		notFound(w, r)
		return
	}
	q, err := question(r.URL.RawQuery)
	if err != nil {
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	text, err := s.cfg.Explain(q)
	if err != nil {
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

// parameters are what a question may have.
var parameters = []string{"host", "path", "method", "header", "client", "tls", "http2", "http3"}

// question reads the query of /explain. Whatever it does not know is an error, lest
// the answer be to another question.
func question(query string) (*Question, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	for name, list := range values {
		switch {
		case !slices.Contains(parameters, name):
			return nil, fmt.Errorf("parameter %q: want %s", name, strings.Join(parameters, ", "))
		case len(list) > 1 && name != "header":
			return nil, fmt.Errorf("parameter %s: given %d times", name, len(list))
		}
	}
	q := &Question{Method: "GET", Host: values.Get("host"), Target: "/", Lines: values["header"]}
	if q.Host == "" {
		return nil, fmt.Errorf("parameter host: missing: want the host that is asked for, as in /explain?host=www.example.com&path=/")
	}
	if path := values.Get("path"); path != "" {
		q.Target = path
	}
	if method := values.Get("method"); method != "" {
		q.Method = method
	}
	q.Client = netip.MustParseAddr("127.0.0.1")
	if text := values.Get("client"); text != "" {
		if q.Client, err = netip.ParseAddr(text); err != nil {
			return nil, fmt.Errorf("parameter client %q: want an IP address", text)
		}
		q.Client = q.Client.Unmap()
	}
	for name, to := range map[string]*bool{"tls": &q.Secure, "http2": &q.HTTP2, "http3": &q.HTTP3} {
		switch text := values.Get(name); text {
		case "", "0", "false":
		case "1", "true":
			*to = true
		default:
			return nil, fmt.Errorf("parameter %s %q: want true or false", name, text)
		}
	}
	return q, nil
}
