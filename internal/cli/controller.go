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
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"vmdisk.io/vmdisk/internal/admission"
	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/internal/metrics"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/pod"
)

// controllerOptions are the flags of "vmdisk controller".
type controllerOptions struct {
	workerImage    string
	pullPolicy     string
	namespace      string
	leaderElection bool
	metricsAddress string
	probeAddress   string
	webhookPort    int
	patience       time.Duration
	scratchSize    string
	deadlines      populate.Deadlines
	engine         string
	crossClass     string
	images         clone.Options
}

// The leader's lease. An API server or a node that stalls for half a minute doesn't cost the leader its place; a leader that ends in
// order gives it up at once, and one that vanishes is followed within leaseDuration.
const (
	leaseDuration = 45 * time.Second
	renewDeadline = 30 * time.Second
	renewEvery    = 5 * time.Second
)

// shortestPatience is longer than a worker's own with a silent source, whose error says more.
const shortestPatience = 2 * time.Minute

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
	f.StringVar(&o.images.DefaultClass, "default-storage-class", "", defaultClassHelp)
	f.StringVar(&o.namespace, "namespace", "vmdisk", "the controller's own namespace, with the leader's lease and the webhooks' Service and Secret")
	f.BoolVar(&o.leaderElection, "leader-election", true, "let only one of several controllers act")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 turns it off")
	f.StringVar(&o.probeAddress, "probe-address", ":8081", "address of /healthz and /readyz")
	f.IntVar(&o.webhookPort, "webhook-port", 9443, "port that the API server's questions come to")
	f.DurationVar(&o.patience, "worker-patience", 10*time.Minute, "how long nothing may move in a worker, neither from its source nor to its volume, before it is ended and the disk is tried again; 0: for ever")
	f.StringVar(&o.scratchSize, "scratch-size", "0", "how much of a node's disk a worker may take for an image that can't be decoded in one pass from a source that can't be read at any place, such as 20Gi: "+
		"an emptyDir, which counts for no quota of storage; 0: such an image is refused")
	known := populate.Deadlines{}.WithDefaults()
	f.DurationVar(&o.deadlines.Provision, "clone-provision-deadline", known.Provision, "how long a storage driver may take to clone a volume, or to restore it from a snapshot, before its bytes are copied; a large one has longer (twice what a copy at 100 MiB/s takes)")
	f.DurationVar(&o.deadlines.Snapshot, "clone-snapshot-deadline", known.Snapshot, "how long a snapshot for a clone may take until it is ready")
	f.DurationVar(&o.deadlines.Schedule, "clone-schedule-deadline", known.Schedule, "how long no node may take the pod that binds a cloned volume")
	f.DurationVar(&o.deadlines.Resize, "clone-resize-deadline", known.Resize, "how long a cloned volume may take to grow")
	f.StringVar(&o.engine, "engine", string(clone.EngineVMDisk), "who makes the disks of DataVolumes: vmdisk, or cdi, which must be installed then")
	f.StringVar(&o.crossClass, "cross-class-clone", "copy", "what becomes of a new VMDisk whose clone may never bind: copy with a warning, or refuse; with --engine=cdi always refuse")
	f.StringVar(&o.images.ImageNamespace, "image-namespace", "vmdisk-images", "namespace of the golden images; in Cozystack cozy-public")
	f.StringVar(&o.images.ImagePrefix, "image-prefix", "", "what comes before an image's name in the name of its claim; in Cozystack vm-default-images-")
	return cmd
}

func runController(ctx context.Context, o controllerOptions) error {
	switch corev1.PullPolicy(o.pullPolicy) {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return fmt.Errorf("--worker-image-pull-policy is %q: set it to Always, IfNotPresent or Never", o.pullPolicy)
	}
	if o.patience != 0 && o.patience < shortestPatience {
		return fmt.Errorf("--worker-patience is %s: set it to 0, or to at least %s, since a source may be silent for a minute", o.patience, shortestPatience)
	}
	scratch, err := resource.ParseQuantity(o.scratchSize)
	if err != nil || scratch.Sign() < 0 {
		return fmt.Errorf("--scratch-size is %q: set it to 0, or to a size such as 20Gi", o.scratchSize)
	}
	if o.workerImage == "" {
		return fmt.Errorf("--worker-image is missing: set it to this container's own image")
	}
	policy, err := clone.NewPolicy(o.engine, o.crossClass)
	if err != nil {
		return err
	}
	o.images.Policy = policy
	webhooks := admission.New(admission.Options{Namespace: o.namespace, Port: o.webhookPort, Plan: o.images})
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
		Cache:                         webhooks.Cached(controllers.Cached()),
		WebhookServer:                 webhooks.Server(),
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
	attempts, err := addMetrics(mgr, policy.Engine)
	if err != nil {
		return err
	}
	return startController(ctx, mgr, webhooks, controllers.Options{
		Worker:       pod.Settings{Image: o.workerImage, PullPolicy: corev1.PullPolicy(o.pullPolicy), Patience: o.patience, Scratch: scratch.Value()},
		Deadlines:    o.deadlines,
		DefaultClass: o.images.DefaultClass,
		Images:       clone.Images{Namespace: o.images.ImageNamespace, Prefix: o.images.ImagePrefix},
		Engine:       policy.Engine,
		Ended:        attempts.Count,
	})
}

// addMetrics adds vmdisk's metrics to those that every manager serves.
func addMetrics(mgr ctrl.Manager, engine clone.Engine) (*metrics.Attempts, error) {
	disks := &metrics.Disks{Reader: mgr.GetCache(), Leads: mgr.Elected(), CDIServes: engine == clone.EngineCDI}
	if err := crmetrics.Registry.Register(disks); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return metrics.NewAttempts(crmetrics.Registry)
}

func startController(ctx context.Context, mgr ctrl.Manager, webhooks *admission.Webhooks, o controllers.Options) error {
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
	if err := webhooks.Setup(ctx, mgr); err != nil {
		return fmt.Errorf("set up the webhooks: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhooks", webhooks.Ready); err != nil {
		return fmt.Errorf("add readiness check: %w", err)
	}
	if err := answerPings(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// answerPings makes a manager say that it is there.
func answerPings(mgr ctrl.Manager) error {
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return fmt.Errorf("add health check: %w", err)
		}
	}
	return nil
}
