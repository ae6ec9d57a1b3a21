package main

import "fairlead/internal/config"

type schemaCmd struct{}

// Help is shown by schema --help.
func (schemaCmd) Help() string {
	return `Editors with a YAML language server complete and check files that start with
  # yaml-language-server: $schema=fairlead.schema.json`
}

// Run prints the schema.
func (schemaCmd) Run(s streams) error {
	_, err := s.out.Write(config.Schema())
	return err
}
