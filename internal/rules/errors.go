package rules

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Position is a place in an expression.
type Position struct {
	Offset int // in bytes, from 0
	Line   int // from 1
	Column int // in characters, from 1
}

// String names the column, and the line unless it is the first.
func (p Position) String() string {
	if p.Line == 1 {
		return fmt.Sprintf("column %d", p.Column)
	}
	return fmt.Sprintf("line %d, column %d", p.Line, p.Column)
}

// positionOf finds the line and column of an offset. A line ends with LF; the
// CR of a CR LF is its last character.
func positionOf(source string, offset int) Position {
	before := source[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return Position{offset, strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1}
}

// Error says why an expression was refused, and points at what is wrong.
type Error struct {
	Position
	Message string
}

// Error returns position and message.
func (e *Error) Error() string { return e.Position.String() + ": " + e.Message }

// Note says what is suspicious in an expression that was accepted.
type Note struct {
	Position
	Message string
}

// String returns position and message.
func (n Note) String() string { return n.Position.String() + ": " + n.Message }

func errorAt(source string, offset int, format string, args ...any) *Error {
	return &Error{positionOf(source, offset), fmt.Sprintf(format, args...)}
}
