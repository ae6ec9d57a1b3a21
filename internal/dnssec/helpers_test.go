package dnssec

import (
	"net/http/httptest"
	"testing"

	"fairlead/internal/telemetry"
)

func scrape(t *testing.T, r *telemetry.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}
