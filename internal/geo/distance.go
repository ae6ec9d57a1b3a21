package geo

import "math"

// earthRadius is the mean radius in kilometres (IUGG).
const earthRadius = 6371.0088

// Position is a point on the unit sphere; the zero value means unknown. It is
// what distances are compared by: the nearer of two points has the larger [Dot].
type Position struct{ X, Y, Z float64 }

// At returns the position of a place in degrees north and east.
func At(latitude, longitude float64) Position {
	sinLat, cosLat := math.Sincos(latitude * math.Pi / 180)
	sinLon, cosLon := math.Sincos(longitude * math.Pi / 180)
	return Position{X: cosLat * cosLon, Y: cosLat * sinLon, Z: sinLat}
}

// Known reports whether the position is one.
func (p Position) Known() bool { return p != Position{} }

// Dot is the cosine of the angle between two positions: 1 for the same place, -1
// for opposite ends of the Earth. Ranking needs no more, and no arc cosine.
func (p Position) Dot(q Position) float64 { return p.X*q.X + p.Y*q.Y + p.Z*q.Z }

// Distance returns the great-circle distance of two positions in kilometres,
// below 0 where one is unknown.
func Distance(p, q Position) float64 {
	if !p.Known() || !q.Known() {
		return -1
	}
	// By the chord, as the arc cosine loses near places: haversine's a is the
	// square of half of it.
	dx, dy, dz := p.X-q.X, p.Y-q.Y, p.Z-q.Z
	return 2 * earthRadius * math.Asin(min(math.Sqrt(dx*dx+dy*dy+dz*dz)/2, 1))
}
