package telemetry

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQueryLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "queries.log")
	l, err := OpenQueryLog(file, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := QueryRecord{
		Time: time.Unix(1_700_000_000, 5000), Listener: "dns", Zone: "example.com", Transport: "udp",
		Client: netip.MustParseAddrPort("[2001:db8::1]:53000"), Subnet: netip.MustParsePrefix("192.0.2.0/24"), ID: 7,
		Name: []byte("a\"b.example.com."), Type: "A", Class: "IN", RCode: "NOERROR", Answers: 2, Authoritative: true, EDNS: true, DO: true,
		Cookie: "valid", BytesIn: 40, BytesOut: 70,
	}
	if !l.Sampled() {
		t.Error("not sampled")
	}
	l.Log(&r)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	r.Subnet, r.Name = netip.Prefix{}, nil
	l.Log(&r)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.Log(&r) // of a worker that still has the log: dropped
	var text []string
	for _, f := range []string{file + ".1", file} {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, slices.Collect(strings.Lines(string(b)))...) // of either: lines wait in a buffer
	}
	const first = `{"time":"2023-11-14T22:13:20.000005Z","listener":"dns","transport":"udp","client":"[2001:db8::1]:53000","ecs":"192.0.2.0/24","id":7,"opcode":0,"name":"a\"b.example.com.","type":"A","class":"IN","zone":"example.com","rcode":"NOERROR","answers":2,"aa":true,"tc":false,"edns":true,"do":true,"cookie":"valid","bytes_in":40,"bytes_out":70}`
	if len(text) != 2 || text[0] != first+"\n" {
		t.Fatalf("lines\n%s\nwant two, the first\n%s", strings.Join(text, ""), first)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(text[1]), &v); err != nil || v["ecs"] != nil || v["name"] != "" {
		t.Errorf("%s: %v", text[1], err)
	}
}

// A log that is off is a nil one.
func TestNoQueryLog(t *testing.T) {
	var l *QueryLog
	if l.Sampled() {
		t.Error("sampled")
	}
	l.Log(new(QueryRecord))
	l.Collect(nil)
	if l.Reopen() != nil || l.Close() != nil {
		t.Error("an error")
	}
}
