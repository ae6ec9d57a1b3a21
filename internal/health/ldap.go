package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"fairlead/internal/model"
)

// maxLDAP bounds what a directory may say to a probe, in bytes. The answers
// that pass have less than a hundred.
const maxLDAP = 64 << 10

// ldapProbe is one conversation with a directory.
type ldapProbe struct {
	*Target
	conn  *guardedConn
	tls   bool
	stage stage
}

// probeLDAP passes when the directory lets the monitor's name sign in; without
// one, when it answers a search for the root entry, which everybody may read.
// The round trip runs from the start of the connection to that answer.
func probeLDAP(ctx context.Context, t *Target) (r Result) {
	bind, err := bindRequest(t.Monitor.LDAP)
	if err != nil {
		return failed(FailureConfig, "ldap.password_file: "+err.Error())
	}
	start := time.Now()
	conn, err := t.dial(ctx, t.port())
	if err != nil {
		return classify(ctx, stageConnect, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	p := &ldapProbe{Target: t, conn: guard(conn, maxLDAP), stage: stageAnswer}
	defer func() { // what is wrong with a message must not end the process
		if v := recover(); v != nil {
			r = failed(FailureInvalid, fmt.Sprintf("message that cannot be read: %v", v))
		}
	}()
	if err := p.secure(ctx); err != nil {
		return p.failure(ctx, err, true)
	}
	if err := p.ask(bind); err != nil {
		return p.failure(ctx, err, bind == nil)
	}
	return Result{RTT: time.Since(start)}
}

// bindRequest returns how to sign in, nil for not at all.
func bindRequest(b model.LDAPBind) (*ldap.SimpleBindRequest, error) {
	if b.BindDN == "" {
		return nil, nil
	}
	info, err := os.Stat(b.PasswordFile) // reading a pipe could take for ever
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: want a regular file", b.PasswordFile)
	}
	f, err := os.Open(b.PasswordFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, model.MaxPassword+1))
	if err != nil {
		return nil, err
	}
	password := model.Password(data)
	if password == "" || len(data) > model.MaxPassword {
		return nil, fmt.Errorf("%s: want a password of 1 to %d bytes", b.PasswordFile, model.MaxPassword)
	}
	return ldap.NewSimpleBindRequest(b.BindDN, password, nil), nil
}

// secure begins TLS, where the monitor has it.
func (p *ldapProbe) secure(ctx context.Context) error {
	switch p.Monitor.WayToTLS() {
	case model.MonitorTLSNone:
		return nil
	case model.MonitorTLSStartTLS:
		if err := startTLS(p.conn); err != nil {
			return err
		}
	}
	p.stage = stageTLS
	c := tls.Client(p.conn.Conn, p.tlsConfig())
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	p.stage, p.tls = stageAnswer, true
	p.conn = guard(c, maxLDAP)
	return nil
}

// startTLS asks for TLS (RFC 4511, 4.14). The library can do that too, but
// tells in a text what is wrong with a certificate.
func startTLS(c net.Conn) error {
	request := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldap.ApplicationExtendedRequest, nil, "")
	request.AppendChild(ber.NewString(ber.ClassContext, ber.TypePrimitive, 0, "1.3.6.1.4.1.1466.20037", ""))
	message := ber.NewSequence("")
	message.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagInteger, 1, ""))
	message.AppendChild(request)
	if _, err := c.Write(message.Bytes()); err != nil {
		return err
	}
	answer, err := ber.ReadPacket(c) // reads no byte more than the answer has
	if err != nil {
		return err
	}
	if len(answer.Children) < 2 || answer.Children[0].Value != int64(1) || answer.Children[1].Tag != ldap.ApplicationExtendedResponse {
		return errors.New("something else than the answer to StartTLS")
	}
	return ldap.GetLDAPError(answer)
}

// ask signs in or, without a request for it, looks for the root entry.
func (p *ldapProbe) ask(bind *ldap.SimpleBindRequest) error {
	l := ldap.NewConn(p.conn, p.tls)
	l.Start()
	defer l.Close()
	if bind != nil {
		_, err := l.SimpleBind(bind)
		return err
	}
	search := ldap.NewSearchRequest("", ldap.ScopeBaseObject, ldap.NeverDerefAliases, 1, 0, true,
		"(objectClass=*)", []string{"1.1"}, nil) // no attribute
	search.EnforceSizeLimit = true
	_, err := l.Search(search)
	return err
}

// failure names what ended a conversation. Where a password was sent, the
// directory's own words are not told: they may repeat it.
func (p *ldapProbe) failure(ctx context.Context, err error, tell bool) Result {
	var said *ldap.Error
	if errors.As(err, &said) && said.ResultCode < ldap.ErrorNetwork {
		name, ok := ldap.LDAPResultCodeMap[said.ResultCode]
		if !ok {
			name = "unknown"
		}
		cause := fmt.Sprintf("got result %d (%s), want 0 (Success)", said.ResultCode, name)
		if tell && said.Err != nil && said.Err.Error() != "" {
			cause += fmt.Sprintf(": %.100q", said.Err.Error())
		}
		r := failed(FailureCode, cause)
		r.Code = int(said.ResultCode)
		return r
	}
	switch ended := p.conn.ended(); {
	case ended == io.EOF:
		err = errors.New("connection closed in place of an answer")
	case ended != nil:
		err = ended
	case !tell:
		err = errors.New("something else than the answer to the bind")
	}
	return classify(ctx, p.stage, err)
}
