package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmdisk.io/vmdisk/lab/chart"
	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/csi"
	"vmdisk.io/vmdisk/lab/demo"
	"vmdisk.io/vmdisk/lab/deploy"
	"vmdisk.io/vmdisk/lab/suite"
)

// productCommands bring vmdisk and the lab together. They are run from the repository's root.
func productCommands() []*cobra.Command {
	return []*cobra.Command{
		{
			Use: "deploy", Short: "Build vmdisk and install it in the lab, or bring it up to date there", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				return deploy.Run(c.Context(), deploy.Options{Out: os.Stdout})
			},
		},
		{
			Use: "image NAME ARCHIVE", Short: "Write vmdisk's image to an archive that container tools load and push", Args: cobra.ExactArgs(2),
			RunE: func(c *cobra.Command, args []string) error {
				return deploy.Image(c.Context(), deploy.Options{Out: os.Stdout}, args[0], args[1])
			},
		},
		{
			Use: "chart DIRECTORY", Short: "Make the Helm chart's templates and CRDs from config/", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return chart.Write(".", args[0]) },
		},
		{
			Use: "demo", Short: "Start the lab, install vmdisk, and follow a cloud image from its URL to a booted disk", Args: cobra.NoArgs,
			RunE: playDemo,
		},
		testCommand(),
	}
}

// playDemo sets the stage for the demo and plays it. The lab stays up, to look around in.
func playDemo(c *cobra.Command, _ []string) error {
	if err := cluster.Up(c.Context(), cluster.Options{Out: os.Stdout}); err != nil {
		return fmt.Errorf("start the lab: %w", err)
	}
	o := deploy.Options{Out: os.Stdout}
	if err := deploy.Run(c.Context(), o); err != nil {
		return fmt.Errorf("install vmdisk: %w", err)
	}
	tools, err := deploy.Tools(c.Context(), o)
	if err != nil {
		return err
	}
	return demo.Run(c.Context(), demo.Options{
		Out:         os.Stdout,
		CacheDir:    demo.CacheDir(),
		Kubeconfig:  cluster.Kubeconfig(),
		Kubectl:     filepath.Join(cluster.BinDir(), "kubectl"),
		ToolsImage:  tools,
		BackingFile: func(handle string) string { return csi.BackingFile(cluster.CSIDir(), handle) },
	})
}

func testCommand() *cobra.Command {
	o := suite.Options{Out: os.Stdout, Keep: os.Getenv("KEEP") != ""}
	cmd := &cobra.Command{
		Use: "test", Short: "Run the tests, stage by stage, and count them", Args: cobra.NoArgs,
		Long: "Run the tests, stage by stage, and count them. A lab that is up is used and left up; one that the tests start\n" +
			"is stopped again, unless the environment variable KEEP is set.",
		RunE: func(c *cobra.Command, _ []string) error { return suite.Run(c.Context(), o) },
	}
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "run only these stages: "+strings.Join(suite.Stages(), ", "))
	cmd.Flags().BoolVar(&o.All, "all", false, "add the linter, the race detector everywhere and the long scenarios")
	return cmd
}
