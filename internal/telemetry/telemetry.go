// Package telemetry says what the program does: metrics in the Prometheus
// format and the access log.
//
// Planes count with [Counter], [Gauge] and [Histogram], which cost one or two
// atomic additions and live beside what they count. Nothing is registered for
// each object: at scrape time every [Source] walks what is declared now and
// emits its values, so that the series of deleted objects vanish with them
// and no label can come from a request.
//
// The access log never makes a request wait: a line is encoded into a buffer
// that one goroutine writes, and a line that finds the buffer full is dropped
// and counted.
package telemetry
