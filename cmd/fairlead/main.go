// Command fairlead is a self-hosted global load balancer.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"fairlead/internal/config"
)

// version is set by the linker in releases.
var version string

// program is the command line.
type program struct {
	Serve   serveCmd   `cmd:"" help:"Run a node from a configuration file."`
	Check   checkCmd   `cmd:"" help:"Check a configuration file: print everything that is wrong with it."`
	Explain explainCmd `cmd:"" help:"Tell what a node would make of a request, and why."`
	DNSSEC  dnssecCmd  `cmd:"" name:"dnssec" help:"Look at the keys of signed zones, and what their parents need."`
	Geo     geoCmd     `cmd:"" help:"Tell where addresses are, by databases of geography, and why."`
	Schema  schemaCmd  `cmd:"" help:"Print the JSON Schema of configuration files, for editors."`
	Demo    demoCmd    `cmd:"" help:"Run a load balancer before three endpoints, to try things on."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

const description = `Fairlead is a self-hosted global load balancer: monitors watch endpoints, pools
group endpoints, load balancers steer traffic to pools.

To begin, run fairlead demo, which needs no configuration. A node of your own
is one file:

  fairlead check --config fairlead.yaml   everything that is wrong with it
  fairlead serve --config fairlead.yaml   serve it, and follow its changes

Exit status: 0 when all went well, 1 when something failed, 2 for a wrong
command line.`

// streams are where a command writes, so that it can be tested.
type streams struct {
	out, err io.Writer
}

func main() { os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr})) }

// run runs the command line and returns the exit status.
func run(args []string, s streams) int {
	exited := -1
	var p program
	parser, err := kong.New(&p, kong.Name("fairlead"), kong.Description(description), kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 80, NoExpandSubcommands: true}))
	if err != nil {
		fmt.Fprintln(s.err, "fairlead:", err)
		return 2
	}
	k, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintln(s.err, "fairlead:", err)
		fmt.Fprintln(s.err, "try: "+understood(err)+" --help")
		return 2
	}
	if err := k.Run(s); err != nil {
		report(s.err, err)
		return 1
	}
	return 0
}

// understood returns the command line as far as it was understood.
func understood(err error) string {
	line := "fairlead"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		for _, p := range parse.Context.Path {
			if p.Command != nil {
				line += " " + p.Command.Name
			}
		}
	}
	return line
}

// report prints an error: those of a file as they are, since each has its
// place.
func report(w io.Writer, err error) {
	var errs config.Errors
	if errors.As(err, &errs) {
		fmt.Fprintln(w, errs)
		return
	}
	fmt.Fprintln(w, "fairlead:", err)
}

// programVersion returns the version of a release, or what the Go toolchain
// knows of a build from source.
func programVersion() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		if b.Main.Version != "" && b.Main.Version != "(devel)" {
			return b.Main.Version
		}
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "devel-" + s.Value[:12]
			}
		}
	}
	return "devel"
}
