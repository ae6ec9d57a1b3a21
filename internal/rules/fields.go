package rules

// Mode says what an expression is evaluated for.
type Mode uint8

// The modes. A field exists in one or several of them.
const (
	ModeHTTP Mode = 1 << iota // requests of proxied load balancers
	ModeDNS                   // queries of DNS-only load balancers
	ModeL4                    // connections of TCP and UDP listeners
)

const everyMode = ModeHTTP | ModeDNS | ModeL4

// String names the modes.
func (m Mode) String() string {
	s := ""
	for _, one := range []struct {
		mode Mode
		name string
	}{{ModeHTTP, "HTTP"}, {ModeDNS, "DNS"}, {ModeL4, "layer 4"}} {
		if m&one.mode == 0 {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += one.name
	}
	return s
}

// Type is the type of a field, or of a part of an expression.
type Type uint8

// The types. Fields have the first four and the last two.
const (
	Bool Type = iota
	Int
	IP
	String
	BoolArray
	IntArray
	IPArray
	StringArray
	StringMap // names to arrays of strings
)

var typeNames = [...]string{
	"boolean", "integer", "IP address", "string",
	"array of booleans", "array of integers", "array of IP addresses", "array of strings",
	"map of string arrays",
}

// String names the type in words.
func (t Type) String() string { return typeNames[t] }

// a returns the name of the type with its article.
func (t Type) a() string {
	if t == Int || t == IP || t.isArray() {
		return "an " + t.String()
	}
	return "a " + t.String()
}

func (t Type) isArray() bool { return t >= BoolArray && t <= StringArray }

// element returns the type of the elements of an array.
func (t Type) element() Type { return t - BoolArray }

// array returns the type of arrays of t.
func (t Type) array() Type { return t + BoolArray }

// Field is one of the facts that expressions are about.
type Field uint8

// The fields. What each holds is said in the schema.
const (
	FieldLoadBalancerName Field = iota
	FieldLoadBalancerRegion
	FieldClientIP
	FieldClientCountry
	FieldClientContinent
	FieldClientRegion
	FieldClientSubdivision
	FieldClientASN
	FieldSSL
	FieldServerName
	FieldTCPSourcePort
	FieldTCPPort
	FieldUDPSourcePort
	FieldUDPPort
	FieldCookie
	FieldHost
	FieldReferer
	FieldUserAgent
	FieldForwardedFor
	FieldFullURI
	FieldMethod
	FieldVersion
	FieldTimestamp
	FieldBodySize
	FieldURI
	FieldPath
	FieldQuery
	FieldHeaders
	FieldHeaderNames
	FieldHeaderValues
	FieldCookies
	FieldArgs
	FieldArgNames
	FieldArgValues
	FieldQueryName
	FieldQueryNameLen
	FieldQueryQuestion
	FieldQueryType
	FieldQueryClient
	FieldQueryClientIP
	numFields
)

// FieldInfo describes a field.
type FieldInfo struct {
	Field Field
	Name  string // as written in expressions
	Alias string // another name for the same, or ""
	Type  Type
	Modes Mode   // where it exists; elsewhere it is missing
	Doc   string // what its value is

	of   Field // the map whose entries an array is made of
	part part
}

type part uint8

const (
	partNone part = iota
	partNames
	partValues
)

// schema has the fields at their numbers.
var schema = [numFields]FieldInfo{
	{FieldLoadBalancerName, "cf.load_balancer.name", "", String, everyMode,
		"Name of the load balancer.", 0, 0},
	{FieldLoadBalancerRegion, "cf.load_balancer.region", "", String, everyMode,
		"Region code of the node that decides, as in `region_pools`; missing where the node has no region.", 0, 0},
	{FieldClientIP, "ip.src", "", IP, everyMode,
		"Address of the client. For DNS the address of the ECS option if one was sent, else that of the resolver.", 0, 0},
	{FieldClientCountry, "ip.src.country", "ip.geoip.country", String, everyMode,
		"Two-letter country code of `ip.src`; missing where it is not known.", 0, 0},
	{FieldClientContinent, "ip.src.continent", "ip.geoip.continent", String, everyMode,
		"Two-letter continent code of `ip.src`; missing where it is not known.", 0, 0},
	{FieldClientRegion, "ip.src.region", "", String, everyMode,
		"Name of the first-level subdivision of `ip.src`, such as `Texas`; missing where it is not known.", 0, 0},
	{FieldClientSubdivision, "ip.src.subdivision_1_iso_code", "ip.geoip.subdivision_1_iso_code", String, everyMode,
		"ISO 3166-2 code of the first-level subdivision of `ip.src`, such as `US-TX`; missing where it is not known.", 0, 0},
	{FieldClientASN, "ip.src.asnum", "ip.geoip.asnum", Int, everyMode,
		"Number of the autonomous system of `ip.src`; missing where it is not known.", 0, 0},
	{FieldSSL, "ssl", "", Bool, ModeHTTP | ModeL4,
		"The client's connection is encrypted.", 0, 0},
	{FieldServerName, "tls.sni", "", String, ModeHTTP | ModeL4,
		"Server name that the client sent in its TLS hello, in lower case; missing without one.", 0, 0},
	{FieldTCPSourcePort, "tcp.srcport", "", Int, ModeHTTP | ModeL4,
		"TCP port of the client; missing over UDP.", 0, 0},
	{FieldTCPPort, "tcp.dstport", "", Int, ModeHTTP | ModeL4,
		"TCP port that the client connected to; missing over UDP, so for HTTP/3.", 0, 0},
	{FieldUDPSourcePort, "udp.srcport", "", Int, ModeHTTP | ModeL4,
		"UDP port of the client; missing over TCP.", 0, 0},
	{FieldUDPPort, "udp.dstport", "", Int, ModeHTTP | ModeL4,
		"UDP port that the client sends to; missing over TCP.", 0, 0},
	{FieldCookie, "http.cookie", "", String, ModeHTTP,
		"The whole Cookie header; empty without one.", 0, 0},
	{FieldHost, "http.host", "", String, ModeHTTP,
		"Host that the request is for, in lower case, without port.", 0, 0},
	{FieldReferer, "http.referer", "", String, ModeHTTP,
		"The Referer header; empty without one.", 0, 0},
	{FieldUserAgent, "http.user_agent", "", String, ModeHTTP,
		"The User-Agent header; empty without one.", 0, 0},
	{FieldForwardedFor, "http.x_forwarded_for", "", String, ModeHTTP,
		"The X-Forwarded-For header as received; empty without one.", 0, 0},
	{FieldFullURI, "http.request.full_uri", "", String, ModeHTTP,
		"Scheme, host, path and query: `https://example.com/a?b=c`.", 0, 0},
	{FieldMethod, "http.request.method", "", String, ModeHTTP,
		"Method, in upper case.", 0, 0},
	{FieldVersion, "http.request.version", "", String, ModeHTTP,
		"`HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `HTTP/3`.", 0, 0},
	{FieldTimestamp, "http.request.timestamp.sec", "", Int, ModeHTTP,
		"When the request came, in Unix seconds.", 0, 0},
	{FieldBodySize, "http.request.body.size", "", Int, ModeHTTP,
		"Length of the body as the head announces it, 0 without a body; missing where the head does not say it.", 0, 0},
	{FieldURI, "http.request.uri", "", String, ModeHTTP,
		"Path and query.", 0, 0},
	{FieldPath, "http.request.uri.path", "", String, ModeHTTP,
		"Path, as received.", 0, 0},
	{FieldQuery, "http.request.uri.query", "", String, ModeHTTP,
		"Query, without the `?`; empty without one.", 0, 0},
	{FieldHeaders, "http.request.headers", "", StringMap, ModeHTTP,
		"Headers by name in lower case; the values of a repeated header in order.", 0, 0},
	{FieldHeaderNames, "http.request.headers.names", "", StringArray, ModeHTTP,
		"Names of the headers as received, in order, with repeats.", FieldHeaders, partNames},
	{FieldHeaderValues, "http.request.headers.values", "", StringArray, ModeHTTP,
		"Values of the headers, in order.", FieldHeaders, partValues},
	{FieldCookies, "http.request.cookies", "", StringMap, ModeHTTP,
		"Cookies by name; the values of a repeated cookie in order.", 0, 0},
	{FieldArgs, "http.request.uri.args", "", StringMap, ModeHTTP,
		"Arguments of the query by name, not decoded; the values of a repeated argument in order.", 0, 0},
	{FieldArgNames, "http.request.uri.args.names", "", StringArray, ModeHTTP,
		"Names of the arguments, in order, with repeats, not decoded.", FieldArgs, partNames},
	{FieldArgValues, "http.request.uri.args.values", "", StringArray, ModeHTTP,
		"Values of the arguments, in order, not decoded.", FieldArgs, partValues},
	{FieldQueryName, "dns.qry.name", "", String, ModeDNS,
		"Name of the question, in lower case, with the final dot.", 0, 0},
	{FieldQueryNameLen, "dns.qry.name.len", "", Int, ModeDNS,
		"Bytes of the name.", 0, 0},
	{FieldQueryQuestion, "dns.qry.qu", "", Bool, ModeDNS,
		"The message is a question.", 0, 0},
	{FieldQueryType, "dns.qry.type", "", Int, ModeDNS,
		"Type of the question: 1 is A, 28 is AAAA.", 0, 0},
	{FieldQueryClient, "dns.rr.opt.client", "", Bool, ModeDNS,
		"An ECS option was sent.", 0, 0},
	{FieldQueryClientIP, "dns.rr.opt.client.addr", "", IP, ModeDNS,
		"Address of the ECS option; missing without one.", 0, 0},
}

// Geography reports whether a field is known by where an address is, and so only
// where that is looked up.
func (f Field) Geography() bool { return FieldClientCountry <= f && f <= FieldClientASN }

// Schema lists all fields.
func Schema() []FieldInfo { return append([]FieldInfo(nil), schema[:]...) }

// String returns the name of the field.
func (f Field) String() string {
	if f >= numFields {
		return "no field"
	}
	return schema[f].Name
}

var (
	fieldsByName = make(map[string]*FieldInfo)
	fieldNames   []string // for hints
)

func init() {
	for i := range schema {
		f := &schema[i]
		for _, name := range []string{f.Name, f.Alias} {
			if name != "" {
				fieldsByName[name] = f
				fieldNames = append(fieldNames, name)
			}
		}
	}
}
