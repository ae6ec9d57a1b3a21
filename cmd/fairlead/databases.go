package main

import (
	"errors"

	"fairlead/internal/config"
	"fairlead/internal/geo"
	"fairlead/internal/plan"
)

// openDatabases reads the databases of geography that a document names, and warns in
// it of what they do not tell. What is wrong with them comes as config.Errors.
func openDatabases(doc *config.Document) (*geo.Databases, error) {
	d, err := geo.Open(geo.Config{Files: doc.Config.Geo.Databases})
	var errs geo.Errors
	if errors.As(err, &errs) {
		return nil, doc.Judge(errs.Problems())
	}
	if err != nil {
		return nil, err
	}
	if errs := doc.Judge(plan.Geography(doc.Config, d.Gives())); len(errs) > 0 {
		return nil, errs
	}
	return d, nil
}
