package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"vmdisk.io/vmdisk/internal/plan/clone"
)

// planOptions are the arguments and flags of "vmdisk plan".
type planOptions struct {
	clone.Options
	access
	name       string
	files      []string
	engine     string
	crossClass string
	output     string
	stdin      io.Reader
	stdout     io.Writer
	stderr     io.Writer
}

// defaultClassHelp is the help of a flag that the controller and the plan must be given alike.
const defaultClassHelp = "StorageClass of a VMDisk that names none; empty: the cluster's default for virtual machines, else its default"

const planHelp = `Say how a disk is or would be made from another volume, and why: by the driver's clone, by a snapshot or by a copy,
what it waits for, or why it can't be made. docs/clone.md explains the reasons.

NAME is a VMDisk or a DataVolume. With -f the objects come from files instead of a cluster, such as these:

  kubectl get -A -o yaml vmdisk,datavolume,datasource,cdi,cdiconfig,storageprofile,storageclass,pvc,pv,pod,node,\
resourcequota,csidriver,csinode,csistoragecapacity,volumesnapshotclass,volumesnapshot,volumesnapshotcontent > objects.yaml
  vmdisk plan -f objects.yaml

Without NAME each VMDisk is planned, and each DataVolume that is made from another volume. A file has no Secrets in it
that you don't put there. What can't be seen counts as not existing.`

func newPlanCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [NAME]",
		Short: "Say how a disk is made from another volume, and why",
		Long:  planHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 0 && len(o.files) == 0) {
				return usage("%s takes the NAME of one disk, or -f with the objects: see '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.name = args[0]
			}
			o.stdin, o.stdout, o.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return runPlan(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file with manifests, YAML or JSON, instead of a cluster; - is the standard input")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the disk; with -f, also of objects that name none")
	f.StringVar(&o.engine, "engine", string(clone.EngineVMDisk), "who makes the disks: vmdisk or cdi")
	f.StringVar(&o.crossClass, "cross-class-clone", "copy", "what becomes of a disk whose clone may never bind: copy, or refuse; with --engine=cdi always refuse")
	f.StringVar(&o.ImageNamespace, "image-namespace", "vmdisk-images", "namespace of the golden images; in Cozystack cozy-public")
	f.StringVar(&o.ImagePrefix, "image-prefix", "", "what comes before an image's name in the name of its claim; in Cozystack vm-default-images-")
	f.StringVar(&o.DefaultClass, "default-storage-class", "", defaultClassHelp)
	f.StringVar(&o.SelectedNode, "selected-node", "", "node that the disk's consumer runs on")
	f.StringSliceVar(&o.SourceNodes, "source-nodes", nil, "nodes that hold the source's data, where its volume doesn't say: in LINSTOR, those with a diskful replica")
	f.BoolVar(&o.NoSnapshotAPI, "no-snapshot-api", false, "with -f: the cluster doesn't serve VolumeSnapshots")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	o.flags(cmd)
	return cmd
}

func runPlan(ctx context.Context, o planOptions) error {
	policy, err := clone.NewPolicy(o.engine, o.crossClass)
	if err != nil {
		return usage("%v", err)
	}
	o.Policy = policy
	if o.output != "text" && o.output != "json" {
		return usage("--output is %q: set it to text or json", o.output)
	}
	cluster, err := o.look(ctx)
	if err != nil {
		return err
	}
	requests, err := o.requests(cluster)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return o.writeJSON(requests, cluster)
	}
	for i, r := range requests {
		if i > 0 {
			if _, err := fmt.Fprintln(o.stdout); err != nil {
				return err
			}
		}
		if err := writePlan(o.stdout, r, cluster, o.Options); err != nil {
			return err
		}
	}
	return nil
}

// requests are the disks to plan.
func (o *planOptions) requests(cluster clone.Cluster) ([]clone.Request, error) {
	if o.name == "" {
		all := clone.All(cluster, o.Options)
		if len(all) == 0 {
			return nil, fmt.Errorf("there is neither a VMDisk nor a DataVolume in what was given: add the disk that you ask about")
		}
		return all, nil
	}
	r, found := clone.Named(cluster, o.Options, o.namespace, o.name)
	if !found {
		return nil, fmt.Errorf("there is neither a VMDisk nor a DataVolume %s in namespace %s: name another namespace with -n", o.name, o.namespace)
	}
	return []clone.Request{r}, nil
}

// writeJSON prints the plan, or a list of them where there are several disks.
func (o *planOptions) writeJSON(requests []clone.Request, cluster clone.Cluster) error {
	plans := make([]clone.Plan, 0, len(requests))
	for _, r := range requests {
		plans = append(plans, clone.Of(r, cluster, o.Options))
	}
	e := json.NewEncoder(o.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if len(plans) == 1 {
		return e.Encode(plans[0])
	}
	return e.Encode(plans)
}
