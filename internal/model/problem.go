package model

import "fmt"

// Problem is one thing that is wrong, or doubtful, in a Config.
type Problem struct {
	// Path names the place: keys joined by dots, positions in brackets, as in
	// "pools[0].endpoints[2].weight"; map keys likewise: "header.Host".
	Path string
	// Text says what is wrong and what was expected.
	Text string
	// Warning is true when the file can be used all the same.
	Warning bool
}

func (p Problem) Error() string { return fmt.Sprintf("%s: %s", p.Path, p.Text) }
