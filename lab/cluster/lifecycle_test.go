//go:build lifecycle

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/lab/mounts"
)

// envInside tells the test that it runs in namespaces of its own.
const envInside = "VMDISK_LAB_TEST_INSIDE"

// enter makes new namespaces a place for a lab: a /sys that shows the new network, with the machine's cgroups, and no
// mount that the machine would see. What is left when the last process ends (loop devices, cgroups, files) is a lab that
// was killed.
const enter = `set -e
mount --make-rprivate /
aside=$(mktemp -d); mount --rbind /sys/fs/cgroup "$aside"
mount -t sysfs none /sys; mount --rbind "$aside" /sys/fs/cgroup; umount -l "$aside"; rmdir "$aside"
ip link set lo up
exec "$@"`

// TestTheLabComesUpFromWhateverStateItIsIn takes a lab down and up again, several times. It is not the machine's: it has
// a directory and namespaces of its own, so that whoever uses the machine's isn't disturbed.
func TestTheLabComesUpFromWhateverStateItIsIn(t *testing.T) {
	if os.Getenv(envInside) == "" {
		inside(t)
		return
	}
	timed(t, "down", Down)
	nothingIsLeft(t)
	timed(t, "down of what is down", Down)
	timed(t, "up", Up)

	first := running("etcd")
	busy(t)
	timed(t, "up of what is up", Up)
	if second := running("etcd"); first == nil || second == nil || *second != *first {
		t.Fatalf("a healthy lab was restarted: etcd was %+v and is %+v", first, second)
	}

	for _, name := range []string{"kube-scheduler", "kubelet-node-a", "containerd-node-b", "csi-driver"} {
		if err := stop(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	timed(t, "up after some processes died", Up)
	if second := running("etcd"); second == nil || *second != *first {
		t.Fatalf("the cluster was thrown away, though its API server lived: etcd was %+v and is %+v", first, second)
	}
	podsRun(t, 2)

	killEverything(t)
	timed(t, "up after everything was killed", Up)
	busy(t)

	killEverything(t)
	timed(t, "down after everything was killed", Down)
	nothingIsLeft(t)

	halfBuilt(t)
	timed(t, "down of what was half built", Down)
	nothingIsLeft(t)

	halfBuilt(t)
	timed(t, "up of what was half built", Up)
	busy(t)
}

// inside runs this test again in new namespaces: twice, because the end of the first run kills the lab that it leaves.
func inside(t *testing.T) {
	if err := Build(t.Context(), Options{Out: testLog{t}}); err != nil {
		t.Fatal(err)
	}
	dir := defaultDir + "-lifecycle"
	if _, err := run(t.Context(), "", "mkdir", "-p", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), "", "cp", "--archive", "--link", "--force", BinDir(), dir); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"TestTheLabComesUpFromWhateverStateItIsIn", "TestTheLabGoesDownAfterItWasKilled"} {
		cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
			"bash", "-c", enter, "bash", os.Args[0], "-test.v", "-test.run", "^"+what+"$")
		cmd.Env = append(os.Environ(), "LAB_DIR="+dir, envInside+"=yes")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatalf("%s in namespaces of its own: %v", what, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// TestTheLabGoesDownAfterItWasKilled runs after the other one, whose processes ended with their namespace.
func TestTheLabGoesDownAfterItWasKilled(t *testing.T) {
	if os.Getenv(envInside) == "" {
		return // the other test runs this one
	}
	if _, loops, err := mounts.Left(Dir()); err != nil || len(loops) == 0 {
		t.Fatalf("the killed lab left no loop devices (%v): this test tests nothing", err)
	}
	timed(t, "down after its namespace ended", Down)
	nothingIsLeft(t)
}

func timed(t *testing.T, what string, do func(context.Context, Options) error) {
	t.Helper()
	started := time.Now()
	if err := do(t.Context(), Options{Out: testLog{t}}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	t.Logf("%s: %s", what, time.Since(started).Round(100*time.Millisecond))
}

type testLog struct{ t *testing.T }

func (w testLog) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// busy gives each node a pod with a raw volume and one with a filesystem, and waits until they run.
func busy(t *testing.T) {
	t.Helper()
	c, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	for i, node := range NodeNames() {
		mode := []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}[i]
		class := []string{"replicated-wffc", "plain"}[i]
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "busy-" + node},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
			},
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "busy-" + node},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{corev1.LabelHostname: node},
				Containers:   []corev1.Container{{Name: "pause", Image: pauseImage, ImagePullPolicy: corev1.PullNever}},
				Volumes: []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
				}}},
			},
		}
		if mode == corev1.PersistentVolumeBlock {
			pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/disk"}}
		} else {
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}}
		}
		for _, object := range []client.Object{claim, pod} {
			err := poll(t.Context(), time.Minute, func(ctx context.Context) error { return c.Create(ctx, object.DeepCopyObject().(client.Object)) })
			if err != nil {
				t.Fatalf("create %s: %v", object.GetName(), err)
			}
		}
	}
	podsRun(t, 2)
}

// podsRun waits until that many of busy's pods run.
func podsRun(t *testing.T, want int) {
	t.Helper()
	c, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	err = poll(t.Context(), 2*time.Minute, func(ctx context.Context) error {
		list := &corev1.PodList{}
		if err := c.List(ctx, list, client.InNamespace("default")); err != nil {
			return err
		}
		ready := 0
		for _, pod := range list.Items {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready != want {
			return fmt.Errorf("%d are ready", ready)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("wait for %d pods: %v", want, err)
	}
}

// killEverything ends all processes of the lab at once, containers too, as the end of a session does.
func killEverything(t *testing.T) {
	t.Helper()
	var pids []int
	for pid := range strays() {
		pids = append(pids, pid)
	}
	if len(pids) < 20 {
		t.Fatalf("only %d processes were found to kill: the lab did not run", len(pids))
	}
	roots, err := cgroupRoots()
	if err != nil {
		t.Fatal(err)
	}
	inPods := 0
	for _, root := range roots {
		groups, err := cgroupsFrom(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			found, err := processesIn(group)
			if err != nil {
				t.Fatal(err)
			}
			inPods += len(found)
			pids = append(pids, found...)
		}
	}
	if inPods == 0 {
		t.Fatal("no process was found in the pods' cgroups: the pods did not run")
	}
	for _, pid := range pids {
		if err := signal(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// halfBuilt leaves what a run leaves that is killed soon after its begin.
func halfBuilt(t *testing.T) {
	t.Helper()
	if err := makePKI(); err != nil {
		t.Fatal(err)
	}
	if err := makeNetwork(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []component{etcd(), containerd("node-a")} {
		if _, err := ensure(t.Context(), Options{}, c); err != nil {
			t.Fatal(err)
		}
	}
	// A process that was started, but whose pid file was not written any more.
	if err := removeFile(pidFile("etcd")); err != nil {
		t.Fatal(err)
	}
}

// nothingIsLeft checks that the machine shows no trace of a lab but its programs and logs.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	if left := strays(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if points, loops, err := mounts.Left(Dir()); err != nil || len(points)+len(loops) > 0 {
		t.Errorf("mounts and loop devices are left: %v, %v (%v)", points, loops, err)
	}
	if left, err := cgroupRoots(); err != nil || len(left) > 0 {
		t.Errorf("cgroups are left: %v (%v)", left, err)
	}
	for _, pattern := range []string{"/sys/class/net/" + bridge, "/var/lib/cni/results/" + networkName("node-*"), Kubeconfig(), CSIDir() + "/*"} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("left: %v (%v)", left, err)
		}
	}
	for _, table := range []string{"filter", "nat", "mangle"} {
		saved, err := run(t.Context(), "", "iptables-save", "-t", table)
		if err != nil {
			t.Fatal(err)
		}
		if _, changed := withoutLab(saved); changed {
			t.Errorf("packet filter rules are left in %s:\n%s", table, saved)
		}
	}
	sets, err := run(t.Context(), "", "ipset", "list", "-n")
	if err != nil {
		t.Fatal(err)
	}
	if left := labSets(sets); len(left) > 0 {
		t.Errorf("address sets are left: %v", left)
	}
}
