// Package pod makes a worker's pod out of a job. It is pure.
package pod

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	sdkapi "kubevirt.io/controller-lifecycle-operator-sdk/api"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

const (
	// Container is the name of the worker's container. Others may be injected.
	Container = "importer"
	// VolumePath is where a filesystem volume is mounted, DevicePath is where a block volume's device is.
	VolumePath = "/disk"
	DevicePath = "/dev/vmdisk-target"
	// SourcePath and SourceDevicePath are the same for a volume that is copied from.
	SourcePath       = "/source"
	SourceDevicePath = "/dev/vmdisk-source"
	// volumeName and sourceName are the claims' names within the pod.
	volumeName = "disk"
	sourceName = "source"
)

// Settings are an installation's settings for all workers.
type Settings struct {
	// Image is the worker's image, which is vmdisk's own.
	Image string
	// PullPolicy is empty for the kubelet's default.
	PullPolicy corev1.PullPolicy
	// Patience is how long nothing may move in a worker before it is ended; 0: for ever.
	Patience time.Duration
	// Placement is where CDI.spec.workload wants workers.
	Placement sdkapi.NodePlacement
}

// PlacedBy are the settings for a worker of a disk whose own placement, if it says anything, counts in place of the cluster's.
func (s Settings) PlacedBy(own *v1alpha1.Placement) Settings {
	if !own.IsEmpty() {
		s.Placement = sdkapi.NodePlacement{NodeSelector: own.NodeSelector, Affinity: own.Affinity, Tolerations: own.Tolerations}
	}
	return s
}

// Request is what a worker's pod is made from.
type Request struct {
	DataVolume *cdiv1.DataVolume
	Claim      *corev1.PersistentVolumeClaim
	Owner      metav1.OwnerReference
	Job        job.Spec
	Mounts     []Mount
	// From is the claim of the volume that the job's source names, in the same namespace; nil: it names none.
	From *corev1.PersistentVolumeClaim
	// Config is the configuration in force; nil stands for its defaults.
	Config   *cdiv1.CDIConfig
	Settings Settings
}

// Name is the name of a claim's worker. It is one name for all attempts, so that there are never two workers.
func Name(claim types.UID) string { return "importer-" + string(claim) }

// GrowerName is the name of the worker that makes a claim's disk larger.
func GrowerName(claim types.UID) string { return "grower-" + string(claim) }

func name(r Request) string {
	if r.Job.Grow {
		return GrowerName(r.Claim.UID)
	}
	return Name(r.Claim.UID)
}

// Worker is the pod: restricted, as the user who will open the disk, one attempt.
func Worker(r Request) *corev1.Pod {
	text, err := r.Job.Encode()
	if err != nil {
		panic(fmt.Sprintf("a job.Spec always encodes: %v", err))
	}
	container := corev1.Container{
		Name:                     Container,
		Image:                    r.Settings.Image,
		ImagePullPolicy:          r.Settings.PullPolicy,
		Args:                     []string{"worker"},
		Env:                      append([]corev1.EnvVar{{Name: job.SpecEnv, Value: text}}, environment(r.Config)...),
		Resources:                resources(r.Config),
		SecurityContext:          restricted(),
		TerminationMessagePath:   job.ResultPath,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	volumes := []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: r.Claim.Name},
	}}}
	if r.Job.Target.Kind == job.Block {
		container.VolumeDevices = []corev1.VolumeDevice{{Name: volumeName, DevicePath: DevicePath}}
	} else {
		container.VolumeMounts = []corev1.VolumeMount{{Name: volumeName, MountPath: VolumePath}}
	}
	if r.From != nil {
		volumes = append(volumes, corev1.Volume{Name: sourceName, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: r.From.Name},
		}})
		if r.Job.Source.Volume.Kind == job.Block {
			container.VolumeDevices = append(container.VolumeDevices, corev1.VolumeDevice{Name: sourceName, DevicePath: SourceDevicePath})
		} else {
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: sourceName, MountPath: SourcePath, ReadOnly: true})
		}
	}
	for i, m := range r.Mounts {
		input := fmt.Sprintf("input-%d", i)
		volumes = append(volumes, corev1.Volume{Name: input, VolumeSource: m.source()})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: input, MountPath: m.Path, ReadOnly: true})
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       r.Claim.Namespace,
			Name:            name(r),
			Labels:          labels(r),
			Annotations:     annotations(r.DataVolume),
			OwnerReferences: []metav1.OwnerReference{r.Owner},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			Containers:                   []corev1.Container{container},
			Volumes:                      volumes,
			ServiceAccountName:           r.DataVolume.Spec.ServiceAccountName,
			AutomountServiceAccountToken: new(false),
			EnableServiceLinks:           new(false),
			PriorityClassName:            r.DataVolume.Spec.PriorityClassName,
			ImagePullSecrets:             pullSecrets(r.Config),
			NodeSelector:                 r.Settings.Placement.NodeSelector,
			Affinity:                     r.Settings.Placement.Affinity,
			Tolerations:                  r.Settings.Placement.Tolerations,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:        new(true),
				RunAsUser:           new(int64(cdi.DiskUser)),
				RunAsGroup:          new(int64(cdi.DiskUser)),
				FSGroup:             new(int64(cdi.DiskUser)),
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}
}

// labels are the claim's, so that a policy which selects the disk selects its worker, and those that CDI's workers have.
func labels(r Request) map[string]string {
	l := maps.Clone(r.Claim.Labels)
	if l == nil {
		l = map[string]string{}
	}
	maps.Copy(l, map[string]string{
		cdi.AppLabel:          cdi.AppValue,
		cdi.WorkerLabel:       cdi.WorkerImporter,
		cdi.ManagedByLabel:    cdi.ManagedBy,
		cdi.ComponentLabel:    cdi.ComponentStorage,
		v1alpha1.AttemptLabel: strconv.Itoa(r.Job.Attempt),
	})
	return l
}

// annotations keep the worker out of service meshes, which would keep its pod from ending, unless the DataVolume says otherwise. The
// placement is there so that one which was changed is noticed: admission adds to what the pod's spec says of it.
func annotations(dv *cdiv1.DataVolume) map[string]string {
	a := map[string]string{cdi.IstioInject: "false", cdi.LinkerdInject: "disabled"}
	for _, key := range []string{cdi.IstioInject, cdi.LinkerdInject, cdi.MultusNetworks, cdi.MultusDefaultNetwork, v1alpha1.PlacementAnnotation} {
		if v, ok := dv.Annotations[key]; ok {
			a[key] = v
		}
	}
	return a
}

// restricted is what the restricted Pod Security Standard asks of a container.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func resources(config *cdiv1.CDIConfig) corev1.ResourceRequirements {
	if config == nil || config.Status.DefaultPodResourceRequirements == nil {
		return corev1.ResourceRequirements{}
	}
	return *config.Status.DefaultPodResourceRequirements.DeepCopy()
}

func pullSecrets(config *cdiv1.CDIConfig) []corev1.LocalObjectReference {
	if config == nil {
		return nil
	}
	return config.Status.ImagePullSecrets
}

// environment passes the cluster's proxy on, in the variables that every HTTP client reads.
func environment(config *cdiv1.CDIConfig) []corev1.EnvVar {
	if config == nil || config.Status.ImportProxy == nil {
		return nil
	}
	p := config.Status.ImportProxy
	var env []corev1.EnvVar
	for _, v := range []struct {
		name  string
		value *string
	}{{"HTTP_PROXY", p.HTTPProxy}, {"HTTPS_PROXY", p.HTTPSProxy}, {"NO_PROXY", p.NoProxy}} {
		if v.value != nil && *v.value != "" {
			env = append(env, corev1.EnvVar{Name: v.name, Value: *v.value})
		}
	}
	return env
}
