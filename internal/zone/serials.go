package zone

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"fairlead/internal/dnswire"
)

// Serials remembers the serial of each zone with what the zone held, so that a
// serial moves when the content does, and only then, also over restarts. The
// zero value remembers nothing yet.
type Serials struct {
	mu   sync.Mutex
	file string
	last map[string]serial // by the name of the zone
}

type serial struct {
	Serial  uint32 `json:"serial"`
	Content string `json:"content"` // hexadecimal
}

// Load reads what an earlier process remembered; Keep writes to the same file
// from then on. A file that is not there is empty.
func (s *Serials) Load(file string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = file
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	last := make(map[string]serial)
	if err := json.Unmarshal(data, &last); err != nil {
		return fmt.Errorf("%s: %w; without the file, zones begin with new serials", file, err)
	}
	s.last = last
	return nil
}

// Next returns the serial for a zone with this content: the one that it has,
// unless the content is new or the wanted serial is newer. A new one is what is
// wanted, if that is newer, and else the next number.
func (s *Serials) Next(zone string, content [32]byte, wanted uint32, declared bool) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.last[zone]
	newer := !known || dnswire.Newer(wanted, last.Serial)
	switch {
	case known && last.Content == hex.EncodeToString(content[:]) && !(declared && newer):
		return last.Serial
	case newer:
		return wanted
	}
	return last.Serial + 1
}

// Keep remembers the serials of zones that are in force. Those of zones that are
// gone are kept too, for when they come back.
func (s *Serials) Keep(zones []*Zone) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[string]serial)
	}
	changed := false
	for _, z := range zones {
		now := serial{z.SOA.Serial, hex.EncodeToString(z.Content[:])}
		changed = changed || s.last[z.Name] != now
		s.last[z.Name] = now
	}
	if !changed || s.file == "" {
		return nil
	}
	data, err := json.MarshalIndent(s.last, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return err
	}
	return replace(s.file, append(data, '\n'))
}

// replace writes a file whole or not at all, whatever fails meanwhile.
func replace(name string, data []byte) error {
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
