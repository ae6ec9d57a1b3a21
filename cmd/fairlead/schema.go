package main

import "fairlead/internal/config"

type schemaCmd struct{}

// Help is shown by schema --help.
func (schemaCmd) Help() string {
	return `With the schema in a file, an editor that has a YAML language server completes
keys, explains them and marks mistakes while you type:

  fairlead schema > fairlead.schema.json

and, as the first line of the configuration:

  # yaml-language-server: $schema=fairlead.schema.json

The schema knows names, types and ranges. What refers to something else
(a pool that is not there) is found by fairlead check.`
}

// Run prints the schema.
func (schemaCmd) Run(s streams) error {
	_, err := s.out.Write(config.Schema())
	return err
}
