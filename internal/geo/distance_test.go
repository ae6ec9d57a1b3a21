package geo

import (
	"math"
	"testing"
)

func TestDistance(t *testing.T) {
	const quarter = earthRadius * math.Pi / 2
	for _, tt := range []struct {
		name                   string
		lat1, lon1, lat2, lon2 float64
		want, tolerance        float64
	}{
		{"same place", 52.4, 4.9, 52.4, 4.9, 0, 1e-9},
		{"pole to equator", 90, 0, 0, 77, quarter, 1e-6},
		{"opposite ends", 0, 0, 0, 180, 2 * quarter, 1e-6},
		{"across the date line", 0, 179.5, 0, -179.5, quarter / 90, 1e-6},
		{"a metre", 52, 5, 52.000009, 5, 0.001, 1e-5},
		{"Amsterdam to New York", 52.37, 4.90, 40.71, -74.01, 5863, 10},
		{"Ashburn to Frankfurt", 38.9, -77, 50.1, 8.7, 6529.67, 0.01},
		{"Frankfurt to Singapore", 50.1, 8.7, 1.3, 103.9, 10267.03, 0.01},
		{"London to Sydney", 51.51, -0.13, -33.87, 151.21, 16994, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, q := At(tt.lat1, tt.lon1), At(tt.lat2, tt.lon2)
			if got := Distance(p, q); math.Abs(got-tt.want) > tt.tolerance {
				t.Errorf("%v km, want %v", got, tt.want)
			}
			if got, want := p.Dot(q), math.Cos(Distance(p, q)/earthRadius); math.Abs(got-want) > 1e-9 {
				t.Errorf("Dot %v, want %v", got, want)
			}
		})
	}
	if got := Distance(At(1, 2), Position{}); got >= 0 {
		t.Errorf("to an unknown place: %v, want less than 0", got)
	}
	if (Position{}).Known() || !At(0, 0).Known() {
		t.Error("Known: want false for the zero Position and true for all others")
	}
}
