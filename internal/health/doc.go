// Package health watches endpoints: it probes them as their monitors say and
// holds what is known of each.
//
// A [Table] holds the facts: one [Endpoint] for each declared endpoint, with
// its verdict and the moving average of its round trips, and one [Pool] for
// each pool of each plan, with the set of endpoints that may take traffic.
// It outlives plans, so that a reload forgets nothing about what is still
// declared. Any number of goroutines may read; reading never locks and never
// allocates.
//
// A [Checker] is the table's one writer. It owns a schedule for each [Target]
// and sends the probes, of every type that package model has.
//
// The order of calls around a new plan is:
//
//	Table.Endpoint, Table.Pool   while the plan is compiled
//	Checker.Prime                so that no pool starts out empty
//	                             (the plan is swapped in)
//	Checker.Apply                the schedules are now those of the plan
//	Table.Keep                   what no plan needs any more is forgotten
//
// A plan that was compiled and then not used is undone by Apply and Keep with
// what stays in force.
//
// Tests of other packages that need verdicts write them with
// [Table.RecordForTest].
package health
