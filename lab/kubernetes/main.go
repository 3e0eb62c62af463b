// Command kubernetes is every Kubernetes program that the lab runs, and etcd, in one binary, so that their shared code is
// linked (and lies on the disk) once. The name it is called by chooses the program, as with busybox; called by any other
// name, its first argument does. It must know nothing of the lab: each program takes its own usual flags.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs holds one entry per program: how it is run, given os.Args as the program would have them.
func programs() map[string]func(args []string) int {
	command := func(build func() *cobra.Command) func([]string) int {
		return func(args []string) int {
			os.Args = args // component-base and kubectl look at os.Args themselves
			return cli.Run(build())
		}
	}
	return map[string]func([]string) int{
		"etcd":                    func(args []string) int { etcdmain.Main(args); return 0 },
		"kube-apiserver":          command(apiserver.NewAPIServerCommand),
		"kube-controller-manager": command(controllermanager.NewControllerManagerCommand),
		"kube-proxy":              command(proxy.NewProxyCommand),
		"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		"kubectl": func(args []string) int {
			os.Args = args
			if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		},
	}
}

func main() {
	known := programs()
	args := os.Args
	run, ok := known[filepath.Base(args[0])]
	if !ok && len(args) > 1 {
		args = args[1:]
		run, ok = known[args[0]]
	}
	if !ok {
		names := make([]string, 0, len(known))
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "call this binary by the name of one of its programs, or name one first: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run(args))
}
