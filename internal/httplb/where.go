package httplb

import (
	"net/netip"

	"fairlead/internal/geo"
)

// where finds out where a client is: once for each request, and not for requests
// of which nothing asks for it.
type where struct {
	databases *geo.Databases
	client    netip.Addr
	asked     bool
	place     geo.Place
}

// of begins a request of a client.
func (w *where) of(client netip.Addr, databases *geo.Databases) {
	w.databases, w.client, w.asked = databases, client, false
}

func (w *where) look() *geo.Place {
	if !w.asked {
		w.asked, w.place = true, w.databases.Locate(w.client)
	}
	return &w.place
}

// country returns the client's country, nil where it is not known.
func (w *where) country() *geo.Country { return geo.FindCountry(w.look().Country) }

// situate tells steering where the client is, if the policy goes by that.
func (x *exchange) situate() {
	if x.lb.ByPlace {
		x.facts.Place = x.snap.plan.Place(x.where.look())
	}
}
