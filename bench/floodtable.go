//go:build linux

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// printFloods writes for each attack what it meant for each target. The ratio
// is taken within a round, before the median.
func printFloods(w io.Writer, s scenario, opts options, results map[string][]sample) {
	fmt.Fprintf(w, "\n### %s\n\n", s.title)
	fmt.Fprint(w, "Ratios are to the target's own p99 at rest in the same round; of max and failed the table has the worst round.\n\n")
	fmt.Fprint(w, "| beside | target | p50 us | p99 us | ratio | max us | failed | attackers' connections/s | frames/s | CPU % | RSS MiB |\n")
	fmt.Fprint(w, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i, attack := range floodNames() {
		for _, name := range opts.targets {
			var rounds []flooded
			var ratios []float64
			for _, got := range results[name] {
				rounds = append(rounds, got.floods[i])
				ratios = append(ratios, p99(got.floods[i])/p99(got.floods[0]))
			}
			fmt.Fprintf(w, "| %s | %s | %.0f | %.0f | %.2f | %.0f | %.0f | %s | %.0f | %.1f |\n", attack, name,
				median(values(rounds, p50)), median(values(rounds, p99)), median(ratios),
				slices.Max(values(rounds, longest)), slices.Max(values(rounds, flooded.failed)),
				attackRates(i, rounds),
				100*median(values(rounds, flooded.busy)), median(values(rounds, flooded.mib)))
		}
	}
	for _, name := range opts.targets {
		for _, got := range results[name] {
			if got.failed() {
				rest := got.floods[0].felt
				fmt.Fprintf(w, "\n**%s FAILED %d of %d requests at rest: its figures mean nothing.**\n", name, rest.Failed, rest.Failed+rest.Requests)
			}
			for i, f := range got.floods[1:] {
				if f.dealt.Connections == 0 {
					fmt.Fprintf(w, "\n**%s let no attacker of %s connect: its figures there mean nothing.**\n", name, attacks[i].name)
				}
			}
		}
	}
}

func p50(f flooded) float64     { return orNever(f, f.felt.P50) }
func p99(f flooded) float64     { return orNever(f, f.felt.P99) }
func longest(f flooded) float64 { return orNever(f, f.felt.Max) }

// orNever is a time, or longer than any where nothing was answered: 0 would pass
// for the best.
func orNever(f flooded, micros float64) float64 {
	if f.felt.Requests == 0 {
		return math.Inf(1)
	}
	return micros
}

// attackRates are two columns; only beside an attack there is something to say.
func attackRates(i int, rounds []flooded) string {
	if i == 0 {
		return "- | -"
	}
	return fmt.Sprintf("%.0f | %.0f",
		median(values(rounds, func(f flooded) float64 { return f.dealt.connections() })),
		median(values(rounds, func(f flooded) float64 { return f.dealt.frames() })))
}
