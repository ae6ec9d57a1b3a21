package main

import (
	"fmt"
	"runtime"
)

type versionCmd struct{}

// Run prints the version, the toolchain and the system.
func (versionCmd) Run(s streams) error {
	_, err := fmt.Fprintf(s.out, "fairlead %s (%s, %s/%s)\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
