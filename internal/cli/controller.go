package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/internal/pod"
)

// controllerOptions are the flags of "vmdisk controller".
type controllerOptions struct {
	workerImage    string
	pullPolicy     string
	defaultClass   string
	namespace      string
	leaderElection bool
	metricsAddress string
	probeAddress   string
}

// The leader's lease. An API server or a node that stalls for half a minute doesn't cost the leader its place; a leader that ends in
// order gives it up at once, and one that vanishes is followed within leaseDuration.
const (
	leaseDuration = 45 * time.Second
	renewDeadline = 30 * time.Second
	renewEvery    = 5 * time.Second
)

func newControllerCommand() *cobra.Command {
	var o controllerOptions
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the control plane: make the disks that VMDisks and DataVolumes ask for",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runController(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.workerImage, "worker-image", "", "image of the worker pods, which is vmdisk's own (required)")
	f.StringVar(&o.pullPolicy, "worker-image-pull-policy", string(corev1.PullIfNotPresent), "Always, IfNotPresent or Never")
	f.StringVar(&o.defaultClass, "default-storage-class", "", "StorageClass of a VMDisk that names none; empty: the cluster's default for virtual machines, else its default")
	f.StringVar(&o.namespace, "namespace", "vmdisk", "namespace of the leader's lease")
	f.BoolVar(&o.leaderElection, "leader-election", true, "let only one of several controllers act")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 turns it off")
	f.StringVar(&o.probeAddress, "probe-address", ":8081", "address of /healthz and /readyz")
	return cmd
}

func runController(ctx context.Context, o controllerOptions) error {
	switch corev1.PullPolicy(o.pullPolicy) {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return fmt.Errorf("--worker-image-pull-policy is %q: set it to Always, IfNotPresent or Never", o.pullPolicy)
	}
	if o.workerImage == "" {
		return fmt.Errorf("--worker-image is missing: set it to this container's own image")
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
		Cache:                         controllers.Cached(),
		LeaderElection:                o.leaderElection,
		LeaderElectionID:              "vmdisk-controller",
		LeaderElectionNamespace:       o.namespace,
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
	return startController(ctx, mgr, controllers.Options{
		Worker:       pod.Settings{Image: o.workerImage, PullPolicy: corev1.PullPolicy(o.pullPolicy)},
		DefaultClass: o.defaultClass,
	})
}

func startController(ctx context.Context, mgr ctrl.Manager, o controllers.Options) error {
	if err := controllers.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index the cache: %w", err)
	}
	all, err := controllers.All(mgr, o)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := c.Setup(mgr); err != nil {
			return fmt.Errorf("set up %T: %w", c, err)
		}
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return fmt.Errorf("add health check: %w", err)
		}
	}
	return mgr.Start(ctx)
}
