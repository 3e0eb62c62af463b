package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/populator"
)

// populatorOptions are the flags of "vmdisk populator".
type populatorOptions struct {
	namespace      string
	own            string
	serviceAccount string
	egress         job.Egress
	leaderElection bool
	metricsAddress string
	probeAddress   string
}

func newPopulatorCommand() *cobra.Command {
	var o populatorOptions
	cmd := &cobra.Command{
		Use:   "populator",
		Short: "Fill bare claims whose dataSourceRef names a VolumeImportSource, beside a vmdisk controller",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runPopulator(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.namespace, "populator-namespace", "vmdisk-populator", "namespace that disks are filled in; its quota limits how many at a time")
	f.StringVar(&o.own, "namespace", "vmdisk", "the populator's own namespace, with the leader's lease")
	f.StringVar(&o.serviceAccount, "worker-service-account", "vmdisk-worker", "ServiceAccount of the workers, in the populator namespace; it needs no right")
	f.StringSliceVar(&o.egress.Deny, "deny-egress", job.Internal(), "ranges of addresses that workers don't connect to, besides those of the cluster's nodes, pods and services")
	f.StringSliceVar(&o.egress.Allow, "allow-egress", nil, "exceptions from these, such as an image server of one's own: 10.1.2.3/32")
	f.BoolVar(&o.leaderElection, "leader-election", true, "let only one of several populators act")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 turns it off")
	f.StringVar(&o.probeAddress, "probe-address", ":8081", "address of /healthz and /readyz")
	return cmd
}

func runPopulator(ctx context.Context, o populatorOptions) error {
	if _, _, err := o.egress.Parse(); err != nil {
		return usage("--deny-egress, --allow-egress: %v", err)
	}
	if strings.TrimSpace(o.namespace) == "" || o.namespace == o.own {
		return usage("--populator-namespace is %q: disks need a namespace that holds nothing else", o.namespace)
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	scheme, err := controllers.Scheme()
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controllers.PopulatorCached(o.namespace),
		LeaderElection:                o.leaderElection,
		LeaderElectionID:              "vmdisk-populator",
		LeaderElectionNamespace:       o.own,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(renewEvery),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.probeAddress,
	})
	if err != nil {
		return fmt.Errorf("prepare the manager: %w", err)
	}
	c, err := controllers.Populator(ctx, mgr, populator.Settings{Namespace: o.namespace, ServiceAccount: o.serviceAccount, Egress: o.egress})
	if err != nil {
		return err
	}
	if err := c.Setup(mgr); err != nil {
		return err
	}
	if err := answerPings(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
