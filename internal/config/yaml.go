package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxDepth is how deep lists and mappings may nest. The model needs 9.
	maxDepth = 64
	// maxIndent is the last column at which a block may begin. The parser
	// recurses once for each block and a stack overflow ends the process, so
	// the nesting is bounded before it sees the tokens.
	maxIndent = 1000
	// maxKeys is how many keys a block mapping may have: the parser recurses
	// for each and copies those before it.
	maxKeys = 5000
	// maxAnchors and maxAliases bound what repeats a part of the file.
	maxAnchors = 1000
	maxAliases = 100
)

// lineWidths are the numbers of characters in the lines of a text.
type lineWidths []int

func measure(data []byte) lineWidths {
	var w lineWidths
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		w = append(w, utf8.RuneCount(line))
	}
	return w
}

// clamp brings a place of the lexer into the text. Its columns are too large
// behind a tab in quotes on the same line, and what is left out has none.
func (w lineWidths) clamp(line, column int) (int, int) {
	if len(w) == 0 {
		return max(line, 1), max(column, 1)
	}
	line = min(max(line, 1), len(w))
	return line, min(max(column, 1), w[line-1]+1)
}

// parseYAML returns the root of the only document in data.
func parseYAML(name string, data []byte) (root ast.Node, widths lineWidths, errs Errors) {
	fail := func(line, column int, format string, args ...any) (ast.Node, lineWidths, Errors) {
		line, column = widths.clamp(line, column)
		return nil, nil, Errors{{File: name, Line: line, Column: column, Text: fmt.Sprintf(format, args...)}}
	}
	if len(data) > MaxSize {
		return fail(1, 1, "larger than %d MiB", MaxSize>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	// The lexer counts the two characters as two lines inside quotes, which
	// would move every place behind them.
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if line, column, what := unreadable(data); what != "" {
		return fail(line, column, "%s", what)
	}
	widths = measure(data)
	defer func() {
		// A parser that panics has met a text it was not made for.
		if r := recover(); r != nil {
			root, widths, errs = fail(1, 1, "not readable as YAML: %v", r)
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if tk, what := excess(tokens); tk != nil {
		return fail(tk.Position.Line, tk.Position.Column, "%s", what)
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // we find all of them, with both places
	if err != nil {
		var y yaml.Error
		if !errors.As(err, &y) || y.GetToken() == nil {
			return fail(1, 1, "YAML: %v", err)
		}
		p := y.GetToken().Position
		return fail(p.Line, p.Column, "YAML: %s", syntaxText(y.GetMessage()))
	}
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType && doc.Body.Type() != ast.NullType {
			root = doc.Body
		}
	}
	if root == nil {
		return fail(1, 1, "empty: want a configuration")
	}
	return root, widths, nil
}

// unreadable finds the first thing that no YAML file may hold.
func unreadable(data []byte) (line, column int, what string) {
	line, column = 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return line, column, fmt.Sprintf("byte 0x%02x: want UTF-8 text", data[i])
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t', r == 0x7f:
			return line, column, fmt.Sprintf("control character %q: want printable text", r)
		}
		column++
		i += n
	}
	return 0, 0, ""
}

// excess finds the first token that is beyond what we let the parser see.
func excess(tokens token.Tokens) (*token.Token, string) {
	flow, anchors, aliases := 0, 0, 0
	var blocks blockKeys
	begun, ended := false, false // the document
	for _, tk := range tokens {
		switch tk.Type {
		case token.CommentType:
			continue
		case token.DirectiveType:
			return tk, "directives are not supported, leave the line out"
		case token.DocumentEndType:
			ended = true
			continue
		}
		if ended || begun && tk.Type == token.DocumentHeaderType {
			return tk, "a second document begins here: want one document in a file"
		}
		begun = true
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.AnchorType:
			anchors++
		case token.AliasType:
			aliases++
		case token.TagType:
			// Not shown: it may be a password.
			return tk, "tags are not supported: leave it out, or put a text that begins with ! in quotes"
		case token.SequenceEntryType, token.MappingKeyType:
			if tk.Position.Column > maxIndent {
				return tk, fmt.Sprintf("a block begins behind column %d", maxIndent)
			}
			blocks.endBehind(tk.Position.Column)
		case token.MappingValueType:
			if flow > 0 || tk.Prev == nil {
				break
			}
			column := tk.Prev.Position.Column
			if column > maxIndent {
				return tk, fmt.Sprintf("a block begins behind column %d", maxIndent)
			}
			if blocks.add(column) > maxKeys {
				return tk, fmt.Sprintf("a mapping of more than %d keys", maxKeys)
			}
		}
		switch {
		case flow > maxDepth:
			return tk, fmt.Sprintf("nested deeper than %d levels", maxDepth)
		case anchors > maxAnchors:
			return tk, fmt.Sprintf("more than %d anchors", maxAnchors)
		case aliases > maxAliases:
			return tk, fmt.Sprintf("more than %d aliases", maxAliases)
		}
	}
	return nil, ""
}

// blockKeys counts the keys of the block mappings around a token, outermost
// first.
type blockKeys []struct{ column, keys int }

// add counts a key that begins at a column and returns how many its mapping
// has by now.
func (b *blockKeys) add(column int) int {
	b.endBehind(column)
	if last := len(*b) - 1; last >= 0 && (*b)[last].column == column {
		(*b)[last].keys++
		return (*b)[last].keys
	}
	*b = append(*b, struct{ column, keys int }{column, 1})
	return 1
}

// endBehind forgets the mappings that begin behind a column.
func (b *blockKeys) endBehind(column int) {
	for len(*b) > 0 && (*b)[len(*b)-1].column > column {
		*b = (*b)[:len(*b)-1]
	}
}

// syntaxText puts the library's words for common mistakes into plainer ones.
func syntaxText(s string) string {
	if strings.Contains(s, "'\t'") {
		return "tab in the indentation: want spaces"
	}
	return s
}
