package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong, or doubtful, in a Config.
type Problem struct {
	// Path names the place: keys joined by dots, positions in brackets, as in
	// "pools[0].endpoints[2].weight"; map keys likewise: "header.Host".
	Path string
	// Text says what is wrong and what was expected.
	Text string
	// See is the path of another place that Text speaks of, or "".
	See string
	// File, Line and Column are where it stands in another file that the Config
	// names, which tells more than Path; "" and 0 where there is none.
	File         string
	Line, Column int
	// Warning is true when the file can be used all the same.
	Warning bool
}

func (p Problem) Error() string { return fmt.Sprintf("%s: %s", p.Path, p.Text) }

// Place is a place in a Config, named twice: for programs and for people. Its
// zero value is the whole Config.
type Place struct {
	Path string // pools[0].endpoints[2].weight
	Text string // pool "eu": endpoint "a": weight

	// Secret is true where values may be credentials: what stands there is
	// not for messages, which go to logs and pages. Fields of the model are
	// marked with the tag secret:"true".
	Secret bool

	key   int  // where the last key begins in Text
	named bool // Text ends with the name of an item
}

// Key returns the place of a key in the mapping at p.
func (p Place) Key(key string) Place {
	switch {
	case p.Path == "":
		return Place{Path: key, Text: key}
	case p.Secret && strings.Contains(key, ":"):
		return p.entry(key) // not the name of a header, but its whole line
	case p.named:
		return Place{Path: p.Path + "." + key, Text: p.Text + ": " + key, Secret: p.Secret, key: len(p.Text) + 2}
	default:
		return Place{Path: p.Path + "." + key, Text: p.Text + "." + key, Secret: p.Secret, key: len(p.Text) + 1}
	}
}

// Header returns the place of a field among the headers at p. Only Host is
// known to be no credential.
func (p Place) Header(name string) Place {
	p.Secret = true
	field := p.Key(name)
	field.Secret = !strings.EqualFold(name, "Host")
	return field
}

// entry returns the place of a key in the mapping at p when it is the key
// itself, rather than its value, that is spoken of.
func (p Place) entry(key string) Place {
	return Place{Path: p.Path + "." + key, Text: p.Text, Secret: p.Secret}
}

// Item returns the place of an item in the list at p. An item that has a name
// is called by it, others by their position.
func (p Place) Item(i int, name string) Place {
	position := fmt.Sprintf("[%d]", i)
	item := Place{Path: p.Path + position, Text: p.Text + position, Secret: p.Secret}
	if name == "" {
		return item
	}
	around := strings.TrimRight(p.Text[:p.key], ".: ")
	if around != "" {
		around += ": "
	}
	kind := strings.ReplaceAll(strings.TrimSuffix(p.Text[p.key:], "s"), "_", " ")
	item.Text, item.named = around+kind+" "+quote(name), true
	return item
}

// quote shows a text of the file, without letting it fill the screen.
func quote(s string) string {
	const most = 80
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
}

// DidYouMean returns the candidate that got is most likely a misprint of, or
// "" when none is near.
func DidYouMean(got string, candidates []string) string {
	const enough = 1000 // candidates: a hint is not worth more time
	best, least := "", 0
	for _, c := range candidates[:min(len(candidates), enough)] {
		near := max(1, max(len(got), len(c))/3)
		if len(got)-len(c) > near || len(c)-len(got) > near {
			continue
		}
		d := distance(strings.ToLower(got), strings.ToLower(c))
		if d > near || d >= len(c) {
			continue
		}
		if best == "" || d < least {
			best, least = c, d
		}
	}
	return best
}

// maybe returns the end of a sentence about got that names a near candidate.
func maybe(got string, candidates []string) string {
	if c := DidYouMean(got, candidates); c != "" {
		return fmt.Sprintf("; did you mean %q?", c)
	}
	return ""
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b. Long texts are never near each other: the
// cost would be the product of the lengths.
func distance(a, b string) int {
	const longest = 100
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var before, last, row [longest + 1]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
