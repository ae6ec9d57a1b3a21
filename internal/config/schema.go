package config

import (
	"bytes"
	_ "embed"
)

// The schema and the reference page are made from the model by their tests:
//
//go:generate go test -run "TestSchemaIsFresh|TestReferenceIsFresh" -update

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (2020-12) of the file, for editors.
func Schema() []byte { return bytes.Clone(schema) }
