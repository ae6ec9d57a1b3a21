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
	tls         bool
}

var scenarios = []scenario{
	{name: "small64", title: "128-byte responses, 64 connections", path: "/small", bytes: smallBytes, connections: 64},
	{name: "small512", title: "128-byte responses, 512 connections", path: "/small", bytes: smallBytes, connections: 512},
	{name: "large16", title: "1 MiB responses, 16 connections", path: "/large", bytes: largeBytes, connections: 16},
	{name: "tls64", title: "TLS 1.3 (P-256, AES-128-GCM), 128-byte responses, 64 connections", path: "/small", bytes: smallBytes, connections: 64, tls: true},
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
