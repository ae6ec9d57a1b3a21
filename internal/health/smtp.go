package health

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"fairlead/internal/model"
)

// Bounds on what a mail server may say at a time. RFC 5321 has lines of 512
// bytes.
const (
	maxReplyLine  = 1024 // bytes, the end of the line included
	maxReplyLines = 128
)

// smtpProbe is one conversation with a mail server.
type smtpProbe struct {
	*Target
	conn  net.Conn // over TLS once that has begun
	in    *bufio.Reader
	stage stage
}

// probeSMTP passes when the server greets, takes EHLO, or else HELO, and says
// goodbye to QUIT. Where it offers STARTTLS, what follows is said over TLS, as
// the monitor has it. The round trip runs from the start of the connection to
// the end of the greeting.
func probeSMTP(ctx context.Context, t *Target) Result {
	start := time.Now()
	conn, err := t.dial(ctx, t.port())
	if err != nil {
		return classify(ctx, stageConnect, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	p := &smtpProbe{Target: t, stage: stageAnswer}
	p.use(conn)
	rtt, err := p.converse(ctx, start)
	var unwanted *unwantedReply
	switch {
	case errors.As(err, &unwanted):
		r := failed(FailureCode, unwanted.Error())
		r.Code = unwanted.got.code
		return r
	case errors.Is(err, errNoSTARTTLS):
		return failed(FailureTLSProtocol, err.Error())
	case err != nil:
		return classify(ctx, p.stage, err)
	}
	return Result{RTT: rtt}
}

// errNoSTARTTLS says that the server does not know what the monitor asks for.
var errNoSTARTTLS = errors.New("the server does not offer STARTTLS")

// converse says everything that there is to say.
func (p *smtpProbe) converse(ctx context.Context, start time.Time) (rtt time.Duration, err error) {
	way := p.Monitor.WayToTLS()
	if way == model.MonitorTLSImplicit {
		if err := p.startTLS(ctx); err != nil {
			return 0, err
		}
	}
	if _, err := p.expect("the greeting", 220); err != nil {
		return 0, err
	}
	rtt = time.Since(start)
	offered, err := p.hello()
	if err != nil {
		return 0, err
	}
	switch {
	case way == model.MonitorTLSStartTLS && !offered:
		return 0, errNoSTARTTLS
	case way == model.MonitorTLSStartTLS, way == model.MonitorTLSAuto && offered:
		if _, err := p.ask("STARTTLS", 220); err != nil {
			return 0, err
		}
		if p.in.Buffered() > 0 { // by someone in between, who would have it taken for the server's word over TLS
			return 0, errors.New("the server says more in the clear behind its reply to STARTTLS")
		}
		if err := p.startTLS(ctx); err != nil {
			return 0, err
		}
		// What the server has offered before may have been changed on the way.
		if _, err := p.ask("EHLO "+p.name(), 250); err != nil {
			return 0, err
		}
	}
	_, err = p.ask("QUIT", 221)
	return rtt, err
}

// hello introduces the probe and tells whether the server offers STARTTLS.
func (p *smtpProbe) hello() (offered bool, err error) {
	reply, err := p.ask("EHLO "+p.name(), 250)
	var unwanted *unwantedReply
	if errors.As(err, &unwanted) && unwanted.got.code >= 500 { // a server of before 1995
		_, err := p.ask("HELO "+p.name(), 250)
		return false, err
	}
	return reply.offers("STARTTLS"), err
}

// name is how the probe calls itself: by its address, as RFC 5321 (4.1.3) has
// it where there is no name that the server could look up.
func (p *smtpProbe) name() string {
	local, err := netip.ParseAddrPort(p.conn.LocalAddr().String())
	a := local.Addr().Unmap().WithZone("")
	switch {
	case err != nil:
		return "[127.0.0.1]"
	case a.Is6():
		return "[IPv6:" + a.String() + "]"
	}
	return "[" + a.String() + "]"
}

// startTLS goes on over TLS.
func (p *smtpProbe) startTLS(ctx context.Context) error {
	p.stage = stageTLS
	c := tls.Client(p.conn, p.tlsConfig())
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	p.stage = stageAnswer
	p.use(c)
	return nil
}

// use reads from and writes to a connection from now on.
func (p *smtpProbe) use(c net.Conn) {
	p.conn, p.in = c, bufio.NewReaderSize(c, maxReplyLine)
}

// ask sends a command and reads the reply, which must have a code. A server
// may have said why it hangs up before it took the command: that counts more
// than that it did not listen.
func (p *smtpProbe) ask(command string, code int) (smtpReply, error) {
	_, writeErr := io.WriteString(p.conn, command+"\r\n")
	reply, err := p.expect("the reply to "+strings.SplitN(command, " ", 2)[0], code)
	if writeErr != nil && err != nil && reply.code == 0 {
		err = writeErr
	}
	return reply, err
}

// expect reads a reply, which must have a code.
func (p *smtpProbe) expect(what string, code int) (smtpReply, error) {
	reply, err := readReply(p.in)
	switch {
	case err == io.EOF:
		return smtpReply{}, fmt.Errorf("connection closed in place of %s", what)
	case err != nil:
		return smtpReply{}, fmt.Errorf("%s: %w", what, err)
	case reply.code != code:
		return reply, &unwantedReply{what: what, got: reply, want: code}
	}
	return reply, nil
}

// unwantedReply is a reply with another code than the one that passes.
type unwantedReply struct {
	what string
	got  smtpReply
	want int
}

// Error implements error.
func (u *unwantedReply) Error() string {
	return fmt.Sprintf("%s: got %d %.100q, want %d", u.what, u.got.code, u.got.lines[0], u.want)
}

// smtpReply is what a server says at a time.
type smtpReply struct {
	code  int
	lines []string // without the code; at least one
}

// offers reports whether the reply to EHLO has a keyword.
func (r smtpReply) offers(keyword string) bool {
	for i, line := range r.lines {
		if word, _, _ := strings.Cut(line, " "); i > 0 && strings.EqualFold(word, keyword) {
			return true
		}
	}
	return false
}

// readReply reads one reply: lines of a code of three digits, a hyphen, or a
// space on the last one, and a text. It is strict: what two readers could take
// for different replies is none.
func readReply(br *bufio.Reader) (smtpReply, error) {
	var r smtpReply
	for {
		line, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return smtpReply{}, fmt.Errorf("line longer than %d bytes", br.Size())
		case err == io.EOF && (len(line) > 0 || len(r.lines) > 0):
			return smtpReply{}, io.ErrUnexpectedEOF
		case err != nil:
			return smtpReply{}, err
		}
		code, text, last, err := replyLine(string(line))
		switch {
		case err != nil:
			return smtpReply{}, err
		case len(r.lines) > 0 && code != r.code:
			return smtpReply{}, fmt.Errorf("code %d in a line, %d in another", code, r.code)
		case len(r.lines) == maxReplyLines:
			return smtpReply{}, fmt.Errorf("more than %d lines", maxReplyLines)
		}
		r.code, r.lines = code, append(r.lines, text)
		if last {
			return r, nil
		}
	}
}

// replyLine takes a line apart.
func replyLine(line string) (code int, text string, last bool, err error) {
	body, ok := strings.CutSuffix(line, "\r\n")
	if !ok {
		return 0, "", false, errors.New("a line does not end with CR LF")
	}
	for _, b := range []byte(body) {
		if b < ' ' && b != '\t' || b == 0x7f {
			return 0, "", false, errors.New("control character in a line")
		}
	}
	if len(body) < 3 || body[0] < '2' || body[0] > '5' || body[1] < '0' || body[1] > '5' || body[2] < '0' || body[2] > '9' {
		return 0, "", false, fmt.Errorf("%.20q: want a code such as 220 first", body)
	}
	code = int(body[0]-'0')*100 + int(body[1]-'0')*10 + int(body[2]-'0')
	switch rest := body[3:]; {
	case rest == "": // the text may be missing, and the space with it
		return code, "", true, nil
	case rest[0] == ' ':
		return code, rest[1:], true, nil
	case rest[0] == '-':
		return code, rest[1:], false, nil
	}
	return 0, "", false, fmt.Errorf("%.20q: want a space or a hyphen behind the code", body)
}
