package dnswire

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// unhex makes a message of hexadecimal digits with spaces between them.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	question = " 03 777777 07 6578616d706c65 03 636f6d 00 0001 0001" // www.example.com. IN A
	header   = "1234 0100 0001 0000 0000 0000"
	withOPT  = "1234 0100 0001 0000 0000 0001" + question
	opt      = " 00 0029 04d0 00000000 "
)

func TestParseQuery(t *testing.T) {
	for _, c := range []struct {
		name, msg string
		want      Verdict
	}{
		{"plain", header + question, Fine},
		{"root", "1234 0000 0001 0000 0000 0000 00 0002 0001", Fine},
		{"with EDNS", withOPT + opt + "0000", Fine},
		{"EDNS with nothing known", withOPT + opt + "0006 fde9 0002 abcd", Fine},
		{"EDNS flags that are not assigned", withOPT + " 00 0029 04d0 0000 3fff 0000", Fine},
		{"other record beside OPT", "1234 0100 0001 0000 0000 0002" + question + opt + "0000 c00c 0001 0001 00000000 0004 7f000001", Fine},
		{"cookie without a question", "1234 0000 0000 0000 0000 0001" + opt + "000c 000a 0008 0102030405060708", Fine},
		{"IXFR with its SOA", "1234 0000 0001 0000 0001 0000 07 6578616d706c65 03 636f6d 00 00fb 0001 c00c 0006 0001 00000000 0016 00 00 00000001 00000001 00000001 00000001 00000001", Fine},
		{"NOTIFY", "1234 2000 0001 0000 0000 0000" + question, Fine},
		{"NOTIFY with a record", "1234 2000 0001 0001 0000 0000" + question + " c00c 0006 0001 00000000 0000", Fine},

		{"nothing", "", Drop},
		{"short header", "1234 0000 0001 0000 0000 00", Drop},
		{"an answer", "1234 8000 0001 0000 0000 0000" + question, Drop},

		{"IQUERY", "1234 0800 0001 0000 0000 0000" + question, Unknown},
		{"STATUS", "1234 1000 0000 0000 0000 0000", Unknown},
		{"DSO", "1234 3000 0000 0000 0000 0000 0001 0004 00000000", Unknown},
		{"opcode 15", "1234 7800 0001 0000 0000 0000" + question, Unknown},

		{"EDNS version 1", withOPT + " 00 0029 04d0 00 01 0000 0000", NewVersion},
		{"EDNS version 1 with what that may mean", withOPT + " 00 0029 04d0 00 01 0000 0003 000a 00", NewVersion},

		{"no question", "1234 0000 0000 0000 0000 0000", Malformed},
		{"no question, but EDNS", "1234 0000 0000 0000 0000 0001" + opt + "0000", Malformed},
		{"two questions", "1234 0100 0002 0000 0000 0000" + question + question, Malformed},
		{"question is missing", header, Malformed},
		{"name without an end", header + " 03 777777", Malformed},
		{"no class", header + " 03 777777 00 0001", Malformed},
		{"pointer as name", header + " c00c 0001 0001", Malformed},
		{"pointer in a name", header + " 03 777777 c00c 0001 0001", Malformed},
		{"label of type 01", header + " 41 00 0001 0001", Malformed},
		{"label of type 10", header + " 80 00 0001 0001", Malformed},
		{"name of 256 bytes", header + strings.Repeat(" 01 61", 127) + "01 61 00 0001 0001", Malformed},
		{"byte too many", header + question + " 00", Malformed},
		{"an answer in a query", "1234 0100 0001 0001 0000 0000" + question + " c00c 0001 0001 00000000 0004 7f000001", Malformed},
		{"an authority in a query", "1234 0100 0001 0000 0001 0000" + question + " c00c 0001 0001 00000000 0004 7f000001", Malformed},
		{"additional is missing", withOPT, Malformed},
		{"record is cut", withOPT + " 00 0029 04d0 000000", Malformed},
		{"data is cut", withOPT + opt + "0004 0003", Malformed},
		{"option is cut", withOPT + opt + "0003 000300", Malformed},
		{"option is longer than the record", withOPT + opt + "0004 0003 0001", Malformed},
		{"OPT twice", "1234 0100 0001 0000 0000 0002" + question + opt + "0000" + opt + "0000", Malformed},
		{"OPT of a name", withOPT + " c00c 0029 04d0 00000000 0000", Malformed},
		{"pointer to itself", withOPT + " c021 0001 0001 00000000 0000", Malformed},
		{"pointer forward", withOPT + " c0ff 0001 0001 00000000 0000", Malformed},
		{"TSIG is not the last", "1234 0100 0001 0000 0000 0002" + question + " 00 00fa 00ff 00000000 0000" + opt + "0000", Malformed},
		{"cookie of 7 bytes", withOPT + opt + "000b 000a 0007 01020304050607", Malformed},
		{"cookie of 15 bytes", withOPT + opt + "0013 000a 000f 010203040506070809101112131415", Malformed},
		{"cookie of 41 bytes", withOPT + opt + "002d 000a 0029" + strings.Repeat("01", 41), Malformed},
		{"ECS without address", withOPT + opt + "0008 0008 0004 0001 18 00", Malformed},
		{"ECS with scope", withOPT + opt + "000b 0008 0007 0001 18 18 c00002", Malformed},
		{"ECS with bits behind the prefix", withOPT + opt + "000b 0008 0007 0001 17 00 c00003", Malformed},
		{"ECS of 33 bits", withOPT + opt + "000d 0008 0009 0001 21 00 c000020100", Malformed},
		{"ECS of family 3", withOPT + opt + "0008 0008 0004 0003 00 00", Malformed},
		{"ECS of no family with an address", withOPT + opt + "0009 0008 0005 0000 08 00 c0", Malformed},
		{"ECS twice", withOPT + opt + "0010 0008 0004 0001 00 00 0008 0004 0001 00 00", Malformed},
		{"ECS of three bytes", withOPT + opt + "0007 0008 0003 000118", Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q Query
			if got := q.Parse(unhex(t, c.msg)); got != c.want {
				t.Errorf("Parse = %v, want %v", got, c.want)
			}
		})
	}
}

func TestParseQueryContent(t *testing.T) {
	var q Query
	msg := unhex(t, "1234 0110 0001 0000 0000 0002 03 575757 00 0041 0001"+
		" 00 0029 1000 0000 c000 0030"+
		" 0003 0000 000b 0000 000c 0001 00 000a 0010 01020304050607081112131415161718 0008 0006 0001 0f 00 c0a8"+
		" 0063 0001 00"+
		" 00 00fa 00ff 00000000 0000")
	if v := q.Parse(msg); v != Fine {
		t.Fatalf("Parse = %v", v)
	}
	switch {
	case q.ID != 0x1234 || q.Opcode != OpQuery || !q.RD || !q.CD:
		t.Errorf("header: %+v", q)
	case string(q.Name) != "\x03WWW\x00" || string(q.Key.Name()) != "\x03www\x00" || q.Type != TypeHTTPS || q.Class != ClassIN:
		t.Errorf("question: %q %q %v %v", q.Name, q.Key.Name(), q.Type, q.Class)
	case !q.EDNS || q.UDPSize != 4096 || !q.DO || !q.CO || !q.NSID || !q.Keepalive || !q.Padding:
		t.Errorf("EDNS: %+v", q)
	case hex.EncodeToString(q.Cookie) != "01020304050607081112131415161718":
		t.Errorf("cookie %x", q.Cookie)
	case !q.HasECS || q.ECS.Prefix != netip.MustParsePrefix("192.168.0.0/15"):
		t.Errorf("ECS %+v", q.ECS)
	case q.TSIG != len(msg)-11:
		t.Errorf("TSIG at %d, want %d", q.TSIG, len(msg)-11)
	}
	// Nothing is left of it in the next one.
	if v := q.Parse(unhex(t, "0001 0000 0001 0000 0000 0000 00 0002 0001")); v != Fine {
		t.Fatalf("Parse = %v", v)
	}
	if q.RD || q.CD || q.EDNS || q.DO || q.CO || q.NSID || q.Keepalive || q.Padding || q.HasECS || q.Cookie != nil || q.TSIG != 0 {
		t.Errorf("left over: %+v", q)
	}
}

func TestParseECS(t *testing.T) {
	for _, c := range []struct{ name, option, want string }{
		{"IPv4", "0007 0001 18 00 c00002", "192.0.2.0/24"},
		{"IPv4 whole", "0008 0001 20 00 c0000201", "192.0.2.1/32"},
		{"IPv4 unsaid", "0004 0001 00 00", "0.0.0.0/0"},
		{"IPv6", "000b 0002 38 00 20010db8000000", "2001:db8::/56"},
		{"no family", "0004 0000 00 00", "invalid Prefix"},
	} {
		b := unhex(t, c.option)
		option := append([]byte{0, 8}, b...)
		msg := append(unhex(t, withOPT+opt), 0, byte(len(option)))
		var q Query
		if v := q.Parse(append(msg, option...)); v != Fine || !q.HasECS || q.ECS.Prefix.String() != c.want {
			t.Errorf("%s: %v, %t, %v, want %s", c.name, v, q.HasECS, q.ECS.Prefix, c.want)
		}
	}
}

func TestParseQueryDoesNotAllocate(t *testing.T) {
	msg := unhex(t, withOPT+opt+"0017 000a 0008 0102030405060708 0008 0007 0001 18 00 c00002")
	var q Query
	if n := testing.AllocsPerRun(100, func() {
		if q.Parse(msg) != Fine {
			t.Error("not fine")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a query", n)
	}
}

// FuzzQuery compares queries with what the library reads: it takes what we take,
// and reads the same in it.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		header + question, withOPT + opt + "0000",
		withOPT + opt + "0017 000a 0008 0102030405060708 0008 0007 0001 18 00 c00002",
		"1234 0000 0000 0000 0000 0001" + opt + "000c 000a 0008 0102030405060708",
		withOPT + " 00 0029 04d0 00 01 0000 0000",
		"1234 0100 0001 0000 0000 0002" + question + opt + "0000 c00c 0001 0001 00000000 0004 7f000001",
	} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Query
		if q.Parse(b) != Fine || q.Opcode != OpQuery {
			return
		}
		var m dns.Msg
		if err := m.Unpack(b); err != nil {
			// It looks into records that are of no interest here, and has read what
			// comes before them.
			if len(m.Question) == 0 || strings.Contains(err.Error(), "pointer") {
				return
			}
		}
		if m.Id != q.ID || m.RecursionDesired != q.RD || m.CheckingDisabled != q.CD {
			t.Errorf("header: %v against %+v", m.MsgHdr, q)
		}
		if !q.Question {
			return
		}
		buf := make([]byte, 300)
		n, err := dns.PackDomainName(m.Question[0].Name, buf, 0, nil, false)
		if err != nil || string(buf[:n]) != string(q.Name) {
			t.Errorf("name: %q, %v against %q", buf[:n], err, q.Name)
		}
		if m.Question[0].Qtype != uint16(q.Type) || m.Question[0].Qclass != uint16(q.Class) {
			t.Errorf("question: %v against %v %v", m.Question[0], q.Type, q.Class)
		}
		if o := m.IsEdns0(); o != nil && (!q.EDNS || o.Do() != q.DO || max(int(o.UDPSize()), 512) != q.UDPSize) {
			t.Errorf("EDNS: %v against %+v", o, q)
		}
		if q.HasECS && q.ECS.Prefix.IsValid() && q.ECS.Prefix != q.ECS.Prefix.Masked() {
			t.Errorf("client subnet %v has bits behind its prefix", q.ECS.Prefix)
		}
	})
}
