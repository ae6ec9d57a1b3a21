package model

// Validate returns everything that is wrong with c, and what is doubtful, in
// no particular order.
func (c *Config) Validate() []Problem { return nil }
