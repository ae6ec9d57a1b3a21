// Package browser holds tests that have a real browser before the real binary:
// Chromium, without a window, loads a page over each version of HTTP, and the
// page tells what it sees. What browsers alone do is tested here; all else is
// in test/http, which needs no browser.
package browser
