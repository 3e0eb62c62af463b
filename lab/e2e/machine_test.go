//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/csi"
)

// A virtual machine with a disk of its own starts only once the bytes are there, in any class, and where it must run is where
// its volume is made.
func TestVirtualMachine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		class string
		mode  corev1.PersistentVolumeMode
		node  string
		// rests says that the disk must wait for the machine.
		rests bool
	}{
		"in the default class, as in the report":         {mode: corev1.PersistentVolumeBlock},
		"in a class that waits for it":                   {class: blockLater, mode: corev1.PersistentVolumeBlock, rests: true},
		"in a class of one node's volumes, on that node": {class: blockLocal, mode: corev1.PersistentVolumeBlock, node: "node-b", rests: true},
		"with a filesystem, on one node":                 {class: filesLater, mode: corev1.PersistentVolumeFilesystem, node: "node-b", rests: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			share := diskBytes
			if test.mode == corev1.PersistentVolumeFilesystem {
				share = claimBytes(filesLater)
			}
			n.reportsQuotas(quantity(share))
			usage := n.measure()
			m := newMachine(n, "debian-disk", test.node)
			m.createDisk(test.class, test.mode)
			if test.rests {
				n.rests("debian-disk")
			}
			m.run()
			if phases := m.phases.seen(); test.rests != slices.Contains(phases, cdiv1.WaitForFirstConsumer) {
				t.Errorf("the DataVolume went through %v", phases)
			}
			if test.node != "" {
				n.isOn("debian-disk", test.node)
			}
			usage.wasExactly(n, share)
		})
	}
	t.Run("with a VMDisk that does not bind immediately", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.reportsQuotas(diskSize)
		usage := n.measure()
		disk := newDisk(blockLocal, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)})
		disk.Spec.BindImmediately = new(false)
		m := newMachine(n, "disk", "node-b")
		n.create(disk)
		n.eventually(told, "the disk says that it waits for its machine", func() error {
			c := n.workloads("disk")
			if c.Status != metav1.ConditionTrue || c.Reason != "WaitingForConsumer" {
				return fmt.Errorf("WorkloadsReady is %+v", c)
			}
			return nil
		})
		n.rests("disk")
		m.run()
		n.isOn("disk", "node-b")
		n.becomesReady("disk")
		usage.wasExactly(n, diskBytes)
	})
}

// rests checks that a disk which waits for its consumer stays in WaitForFirstConsumer: no volume, no worker.
func (n *tenant) rests(name string) {
	n.t.Helper()
	resting := func() error {
		var dv cdiv1.DataVolume
		if err := n.Get(n.t.Context(), n.key(name), &dv); err != nil {
			return err // it may not be there yet
		}
		if phase := dv.Status.Phase; phase != cdiv1.WaitForFirstConsumer {
			return fmt.Errorf("its phase is %q", phase)
		}
		return nil
	}
	n.eventually(told, "the DataVolume waits for its first consumer", resting)
	n.stays(3*time.Second, "the DataVolume rests", func() error {
		if pods := list(n, &corev1.PodList{}); len(pods.Items) > 0 {
			return fmt.Errorf("there is pod %s", pods.Items[0].Name)
		}
		return resting()
	})
}

// isOn checks that a volume was made on a node.
func (n *tenant) isOn(claim, node string) {
	n.t.Helper()
	pv := n.volume(claim).pv
	key := csi.TopologyKey(pv.Spec.CSI.Driver)
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == key && slices.Equal(e.Values, []string{node}) {
				return
			}
		}
	}
	n.t.Errorf("the volume's node affinity is %+v, want %s on %s", pv.Spec.NodeAffinity.Required, key, node)
}

// machine stands for KubeVirt's controllers: it decides with the API module's own functions, as they do, when to start a
// temporary pod and when to start the virtual machine, for which a pod stands that hashes its disk.
type machine struct {
	*tenant
	disk string
	// node is where the machine must run; empty: anywhere.
	node   string
	tools  string
	phases phases
}

// newMachine is made before its disk, so that it sees all that becomes of it.
func newMachine(n *tenant, disk, node string) *machine {
	n.t.Helper()
	m := &machine{tenant: n, disk: disk, node: node, tools: n.server().tools}
	n.watch(n.name, &cdiv1.DataVolumeList{}, func(_ watch.EventType, object client.Object) {
		if object.GetName() == disk {
			m.phases.see(object.(*cdiv1.DataVolume).Status.Phase)
		}
	})
	return m
}

// phases are those that a DataVolume ever had, each once.
type phases struct {
	mu  sync.Mutex
	all []cdiv1.DataVolumePhase
}

func (p *phases) see(phase cdiv1.DataVolumePhase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.all, phase) {
		p.all = append(p.all, phase)
	}
}

func (p *phases) seen() []cdiv1.DataVolumePhase {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// createDisk makes the DataVolume of the report's dataVolumeTemplates, as KubeVirt would: owned by the machine, with leave to
// adopt a claim.
func (m *machine) createDisk(class string, mode corev1.PersistentVolumeMode) {
	m.t.Helper()
	vm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "debian"}}
	m.create(vm)
	storage := &cdiv1.StorageSpec{
		VolumeMode:  &mode,
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(diskSize)}},
	}
	if class != "" {
		storage.StorageClassName = &class
	}
	m.create(&cdiv1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:            m.disk,
			Labels:          map[string]string{"kubevirt.io/created-by": string(vm.UID)},
			Annotations:     map[string]string{cdi.AllowClaimAdoption: "true"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Spec: cdiv1.DataVolumeSpec{Source: &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: plainURL(qcow2File)}}, Storage: storage},
	})
}

// run starts what KubeVirt would start, until the machine has read its disk, and checks what it read.
func (m *machine) run() {
	m.t.Helper()
	m.eventually(filled, "the machine may start", m.step)
	m.reads("virt-launcher")
	if phases := m.phases.seen(); slices.Contains(phases, cdiv1.PendingPopulation) {
		m.t.Errorf("the DataVolume went through %v, and KubeVirt starts machines in PendingPopulation", phases)
	}
}

// reads waits until a machine's pod has read its disk, and checks what it read, and where.
func (m *machine) reads(name string) {
	m.t.Helper()
	pod := &corev1.Pod{}
	m.eventually(filled, "the machine has read its disk", func() error {
		pod = get(m.tenant, name, &corev1.Pod{})
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("its pod is %s", pod.Status.Phase)
		}
		return nil
	})
	said := kubectl("-n", m.name, "logs", pod.Name)
	if want := fmt.Sprintf("%s %d ", reference(m.t), diskBytes); !strings.HasPrefix(said, want) {
		m.t.Errorf("when it started, the machine read %q, want %q", said, want)
	}
	if m.node != "" && pod.Spec.NodeName != m.node {
		m.t.Errorf("the machine ran on %s, want %s", pod.Spec.NodeName, m.node)
	}
}

// step does what KubeVirt's controller for machines does each time that it looks, and returns nil once the machine is started.
func (m *machine) step() error {
	claim := &corev1.PersistentVolumeClaim{}
	if err := m.Get(m.t.Context(), m.key(m.disk), claim); err != nil {
		return err
	}
	dataVolume := func(name, namespace string) (*cdiv1.DataVolume, error) {
		dv := &cdiv1.DataVolume{}
		return dv, m.Get(m.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, dv)
	}
	ready, err := cdiv1.IsSucceededOrPendingPopulation(claim, dataVolume)
	if err != nil {
		return err
	}
	if ready {
		return m.start("virt-launcher", m.reading(claim)...)
	}
	waits, err := cdiv1.IsWaitForFirstConsumerBeforePopulating(claim, dataVolume)
	if err != nil {
		return err
	}
	if waits {
		if err := m.start("virt-launcher-temporary", "sleep", "0s"); err != nil {
			return err
		}
	}
	return fmt.Errorf("the disk is not ready; so far it was %v", m.phases.seen())
}

// reading is what a pod does that reads the whole disk.
func (m *machine) reading(claim *corev1.PersistentVolumeClaim) []string {
	return []string{"hash", "--bytes", fmt.Sprint(diskBytes), m.path(claim)}
}

func (m *machine) path(claim *corev1.PersistentVolumeClaim) string {
	if *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		return "/dev/vmdisk"
	}
	return "/disk/" + cdi.DiskImage
}

// start makes a pod that uses the disk as KubeVirt's do, unless it exists.
func (m *machine) start(name string, args ...string) error {
	claim := get(m.tenant, m.disk, &corev1.PersistentVolumeClaim{})
	pod := restrictedPod(name, m.tools, args...)
	pod.Namespace = m.name
	pod.Labels = map[string]string{"kubevirt.io/vm": "debian"}
	pod.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: m.disk}}}}
	container := &pod.Spec.Containers[0]
	if *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		container.VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: m.path(claim)}}
	} else {
		container.VolumeMounts = []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}}
	}
	if m.node != "" {
		pod.Spec.Affinity = onNode(m.node)
	}
	if err := m.Create(m.t.Context(), pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("start pod %s: %w", name, err)
	}
	return nil
}

// restrictedPod is a pod of a tenant that runs lab-tools once, as the user that opens disks.
func restrictedPod(name, tools string, args ...string) *corev1.Pod {
	share := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "compute", Image: tools, ImagePullPolicy: corev1.PullNever, Args: args,
				Resources: corev1.ResourceRequirements{Requests: share, Limits: share},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(cdi.DiskUser)), RunAsGroup: new(int64(cdi.DiskUser)), FSGroup: new(int64(cdi.DiskUser)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}
}

func onNode(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}}}}}
}
