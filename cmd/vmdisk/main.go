// Command vmdisk is all of vmdisk: the control plane, the worker, and the tools for people. As kubectl-vmdisk on the
// PATH it is also "kubectl vmdisk".
package main

import (
	"os"

	"vmdisk.io/vmdisk/internal/cli"
)

func main() { os.Exit(cli.Main()) }
