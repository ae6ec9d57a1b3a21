package health

// Why a check failed. The set is closed, so that a failure can be the label of
// a metric; what exactly happened is in the result's cause.
const (
	FailureRefused      = "TCP connection failed"
	FailureTCPTimeout   = "TCP Timeout"
	FailureTimeout      = "HTTP timeout occurred"
	FailureReset        = "Connection Reset by Peer"
	FailureNoRoute      = "No route to host error"
	FailureUnreachable  = "Network Unreachable"
	FailureUnknownHost  = "DNS Unknown Host"
	FailureCode         = "Response code mismatch error"
	FailureBody         = "Response body mismatch error"
	FailureInvalid      = "HTTP Invalid Response"
	FailureUntrusted    = "TLS untrusted certificate error"
	FailureName         = "TLS name mismatch error"
	FailureTLSProtocol  = "TLS protocol error"
	FailureUnrecognized = "TLS unrecognized name error"
	FailureHandshake    = "TLS Handshake Failure"
	FailureConfig       = "Monitor Config Error"
	FailureOther        = "Other Failure"

	// NoFailures is the reason of a check that passed.
	NoFailures = "No failures"
)

// Failures lists the texts above but NoFailures.
func Failures() []string {
	return []string{
		FailureRefused, FailureTCPTimeout, FailureTimeout, FailureReset, FailureNoRoute, FailureUnreachable,
		FailureUnknownHost, FailureCode, FailureBody, FailureInvalid, FailureUntrusted, FailureName,
		FailureTLSProtocol, FailureUnrecognized, FailureHandshake, FailureConfig, FailureOther,
	}
}
