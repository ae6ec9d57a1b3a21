// Package dns_test tests the DNS plane from end to end: nodes run from files, and
// are asked by the clients that operators have. Tests called TestCnn are the cases
// of that number in the project's list of public cases.
package dns_test
