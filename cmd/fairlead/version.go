package main

import (
	"fmt"
	"runtime"
)

type versionCmd struct{}

// Help is shown by version --help.
func (versionCmd) Help() string {
	return `Prints the version of the program, that of Go which built it, and the system
and processor that it was built for, on one line.`
}

// Run prints the version, the toolchain and the system.
func (versionCmd) Run(s streams) error {
	_, err := fmt.Fprintf(s.out, "fairlead %s (%s, %s/%s)\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
