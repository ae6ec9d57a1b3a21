//go:build linux

package main

import (
	"fmt"
	"strings"
)

// scenario is one kind of work, the same for every target.
type scenario struct {
	name        string
	title       string
	path        string
	bytes       int64 // of a response body
	connections int   // kept alive by the clients
	streams     int   // at once in each connection, over HTTP/2; 0: HTTP/1.1
	tls         bool
	idle        bool // each connection makes one request, then only memory is measured
	floods      bool // each connection makes a request now and then, at rest and beside attackers
}

var scenarios = []scenario{
	{name: "small64", title: "128-byte responses, 64 connections", path: "/small", bytes: smallBytes, connections: 64},
	{name: "small512", title: "128-byte responses, 512 connections", path: "/small", bytes: smallBytes, connections: 512},
	{name: "large16", title: "1 MiB responses, 16 connections", path: "/large", bytes: largeBytes, connections: 16},
	{name: "tls64", title: "TLS 1.3 (P-256, AES-128-GCM), 128-byte responses, 64 connections", path: "/small", bytes: smallBytes, connections: 64, tls: true},
	{name: "h2", title: "HTTP/2 over TLS 1.3, 128-byte responses, 16 connections of 32 streams", path: "/small", bytes: smallBytes, connections: 16, streams: 32, tls: true},
	{name: "idle", title: "15,000 idle HTTP/1.1 connections", path: "/small", bytes: smallBytes, connections: 15000, idle: true},
	{name: "idletls", title: "10,000 idle TLS 1.3 connections", path: "/small", bytes: smallBytes, connections: 10000, tls: true, idle: true},
	{name: "floods", title: "16 normal clients, HTTP/2 over TLS 1.3, beside 8 attackers", path: "/small", bytes: smallBytes, connections: 16, tls: true, floods: true},
}

// generator names the program that makes the load; "": it is this one.
func (s scenario) generator() string {
	switch {
	case s.idle, s.floods:
		return ""
	case s.streams > 0:
		return "h2load"
	default:
		return "wrk"
	}
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// findScenarios reads a comma-separated list of names.
func findScenarios(list string) ([]scenario, error) {
	if list == "all" {
		return scenarios, nil
	}
	var found []scenario
next:
	for name := range strings.SplitSeq(list, ",") {
		for _, s := range scenarios {
			if s.name == name {
				found = append(found, s)
				continue next
			}
		}
		return nil, fmt.Errorf("scenario %q: want one of %s, or all", name, strings.Join(scenarioNames(), ", "))
	}
	return found, nil
}
