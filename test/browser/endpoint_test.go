package browser_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"fairlead/test/lab"
)

//go:embed testdata
var testdata embed.FS

// file returns one of the files that make up the page.
func file(name string) []byte {
	b, err := fs.ReadFile(testdata, "testdata/"+name)
	if err != nil {
		panic(err)
	}
	return b
}

// report is what the page posts.
type report struct {
	First   string   `json:"first"`   // what the load before this one came over
	Errors  []string `json:"errors"`  // what was not as it should be
	Interim bool     `json:"interim"` // 103 Early Hints were seen
	// What the page and its parts came over, as ALPN calls it.
	Page, Style, Picture, Script, Upload, Download string
	Session                                        string // names of the endpoints that answered
	Events, Pings                                  int    // that were seen
}

// news is what endpoints tell of.
type news struct {
	asked   chan struct{} // a browser has asked for the page
	reports chan report
}

// endpoint serves the page and takes its report.
type endpoint struct {
	t    *testing.T
	name string
	news news

	mu   sync.Mutex
	seen map[string]chan struct{} // by page: an event of it was seen
}

// pinged is how long the endpoint of a WebSocket says nothing but pings.
const pinged = 4 * time.Second

// newEndpoint starts one and returns its address.
func newEndpoint(t *testing.T, name string, n news) string {
	e := &endpoint{t: t, name: name, news: n, seen: make(map[string]chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", e.page)
	static := func(path, kind string, body []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write(body)
		})
	}
	static("/style.css", "text/css", file("style.css"))
	static("/script.js", "text/javascript", file("script.js"))
	static("/picture.png", "image/png", picture())
	static("/name", "text/plain", []byte(name))
	random := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{}).Read(random)
	static("/random", "application/octet-stream", random)
	static("/random/hash", "text/plain", fmt.Appendf(nil, "%x", sha256.Sum256(random)))
	mux.HandleFunc("POST /hash", e.hash)
	mux.HandleFunc("GET /events", e.events)
	mux.HandleFunc("POST /events/seen", func(_ http.ResponseWriter, r *http.Request) { e.eventSeen(r) <- struct{}{} })
	mux.HandleFunc("GET /socket", e.socket)
	mux.HandleFunc("POST /report", e.report)
	return lab.Serve(t, mux)
}

func picture() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, 32, 32))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (e *endpoint) page(w http.ResponseWriter, r *http.Request) {
	select {
	case e.news.asked <- struct{}{}:
	default:
	}
	w.Header().Set("Link", "</style.css>; rel=preload; as=style")
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Del("Link")
	w.Header().Set("Content-Type", "text/html")
	w.Write(file("page.html"))
}

func (e *endpoint) hash(w http.ResponseWriter, r *http.Request) {
	h := sha256.New()
	if _, err := io.Copy(h, r.Body); err != nil {
		e.t.Errorf("upload: %v", err)
	}
	fmt.Fprintf(w, "%x", h.Sum(nil))
}

// eventSeen returns what tells that a page has seen an event.
func (e *endpoint) eventSeen(r *http.Request) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	page := r.URL.Query().Get("page")
	if e.seen[page] == nil {
		e.seen[page] = make(chan struct{}, 1)
	}
	return e.seen[page]
}

func (e *endpoint) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	for i := 1; ; i++ {
		fmt.Fprintf(w, "id: %d\ndata: event %d\n\n", i, i)
		http.NewResponseController(w).Flush()
		select {
		case <-e.eventSeen(r):
		case <-r.Context().Done(): // the page has closed it, or its time is over
			return
		}
	}
}

// socket says its name, sends back what it gets, and when it is asked to, pings for a
// while and says how often it was answered.
func (e *endpoint) socket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		e.t.Errorf("WebSocket: %v", err)
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(2 << 20)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageText, []byte(e.name)); err != nil {
		e.t.Errorf("WebSocket: %v", err)
	}
	for {
		kind, b, err := c.Read(ctx)
		switch {
		case websocket.CloseStatus(err) == websocket.StatusNormalClosure:
			return
		case err != nil:
			e.t.Errorf("WebSocket: %v", err)
			return
		case string(b) == "ping me":
			go e.ping(ctx, c) // answers are seen by who reads
			continue
		}
		if err := c.Write(ctx, kind, b); err != nil {
			e.t.Errorf("WebSocket: %v", err)
			return
		}
	}
}

func (e *endpoint) ping(ctx context.Context, c *websocket.Conn) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	n := 0
	for end := time.Now().Add(pinged); time.Now().Before(end); n++ {
		<-tick.C
		if err := c.Ping(ctx); err != nil {
			e.t.Errorf("ping %d over the WebSocket: %v", n+1, err)
			break
		}
	}
	if err := c.Write(ctx, websocket.MessageText, strconv.AppendInt(nil, int64(n), 10)); err != nil {
		e.t.Errorf("WebSocket: %v", err)
	}
}

func (e *endpoint) report(w http.ResponseWriter, r *http.Request) {
	var told report
	if err := json.NewDecoder(r.Body).Decode(&told); err != nil {
		e.t.Errorf("report: %v", err)
	}
	e.news.reports <- told
}
