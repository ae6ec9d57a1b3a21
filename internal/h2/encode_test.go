package h2

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// TestEncode reads back what is written from field lines.
func TestEncode(t *testing.T) {
	var e encoder
	e.init()
	dec := hpack.NewDecoder(4096, nil)
	for _, test := range []struct {
		name, lines, want string
	}{
		{"first", "Content-Type: text/plain\r\n", ":status=200;content-type=text/plain;"},
		{"names in any case, space around values", "X-A:  b \t\r\nx-C:d\r\nE:\r\n", ":status=200;x-a=b;x-c=d;e=;"},
		{"fields of the connection are left out", "Connection: x\r\nKeep-Alive: x\r\nProxy-Connection: x\r\nTransfer-Encoding: chunked\r\nUpgrade: x\r\nHost: x\r\nA: b\r\n", ":status=200;a=b;"},
		{"te", "TE: Trailers\r\nTE: gzip\r\n", ":status=200;te=trailers;"},
		{"never indexed", "Authorization: x\r\nset-cookie: a\r\n", ":status=200;authorization=x!;set-cookie=a!;"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e.begin(nil)
			e.status(200)
			e.lines([]byte(test.lines))
			list, err := dec.DecodeFull(e.out)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, f := range list {
				b.WriteString(f.Name + "=" + f.Value)
				if f.Sensitive {
					b.WriteByte('!')
				}
				b.WriteByte(';')
			}
			if b.String() != test.want {
				t.Errorf("fields are %q, want %q", b.String(), test.want)
			}
		})
	}
	for _, status := range []int{100, 200, 204, 304, 404, 599} {
		e.begin(nil)
		e.status(status)
		list, err := dec.DecodeFull(e.out)
		if err != nil || len(list) != 1 || list[0].Value != fmt.Sprint(status) {
			t.Errorf("status %d is written as %v (%v)", status, list, err)
		}
	}
}
