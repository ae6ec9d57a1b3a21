// Package http_test tests the HTTP plane from end to end: nodes run from files,
// clients and endpoints send each other bytes, and what is looked at is what
// operators and clients see. Tests called TestCnn are the cases of that number in
// the project's list of public cases.
package http_test
