//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// A quota that is one byte too small is named on the disk, with what is asked, used and allowed; nothing is left half made; and
// raising the quota is all that it takes.
func TestQuotaTooSmall(t *testing.T) {
	t.Parallel()
	for _, class := range []string{blockNow, blockLater, filesNow, filesLater} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			asked, allowed := quantity(claimBytes(class)), quantity(claimBytes(class)-1)
			n.reportsQuotas(allowed)
			usage := n.measure()
			n.create(newDisk(class, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}))
			why := []string{`quota "quota"`, "it asks requests.storage=" + asked, "used are requests.storage=0", "of requests.storage=" + allowed, "raised"}
			n.says("disk", told, why...)
			n.exceeds("disk", why...)
			n.stays(3*time.Second, "there is no claim, no worker and no volume", n.hasNothing)
			n.raise(quotaName, corev1.ResourceRequestsStorage, asked)
			n.becomesReady("disk")
			n.holds("disk", diskBytes, reference(t), -1)
			usage.wasExactly(n, claimBytes(class))
		})
	}
	t.Run("the claims are used up", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.reportsQuotas("10Gi")
		other := newDisk(blockNow, nil)
		other.Name = "other"
		n.create(other)
		n.becomesReady("other")
		n.create(newDisk(blockNow, nil))
		n.says("disk", told, `quota "quota"`, "persistentvolumeclaims=1")
		n.exceeds("disk", `quota "quota"`, "persistentvolumeclaims=1")
		if err := n.Delete(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		n.becomesReady("disk") // another disk's end makes room, too
	})
	t.Run("there is no room for the worker", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.quota("compute", map[corev1.ResourceName]string{"limits.cpu": "10m", "limits.memory": "10Gi"})
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}))
		n.says("disk", told, `quota "compute"`, "limits.cpu=", "limits.cpu=10m")
		n.raise("compute", "limits.cpu", "4")
		n.becomesReady("disk")
	})
	t.Run("a DataVolume says it, too", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		allowed := quantity(diskBytes - 1)
		n.reportsQuotas(allowed)
		n.create(&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: cdiv1.DataVolumeSpec{
			Source: &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: plainURL(qcow2File)}},
			Storage: &cdiv1.StorageSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(diskSize)}}},
		}})
		n.exceeds("disk", `quota "quota"`, "it asks requests.storage="+diskSize, "used are requests.storage=0", "of requests.storage="+allowed)
		n.stays(3*time.Second, "there is no claim, no worker and no volume", n.hasNothing)
		n.raise(quotaName, corev1.ResourceRequestsStorage, diskSize)
		n.succeeds("disk")
		n.holds("disk", diskBytes, reference(t), -1)
	})
}

// hasNothing returns what of a disk exists: its claim, its worker, its volume.
func (n *tenant) hasNothing() error {
	claims, pods := list(n, &corev1.PersistentVolumeClaimList{}), list(n, &corev1.PodList{})
	volumes := &corev1.PersistentVolumeList{}
	if err := n.List(n.t.Context(), volumes); err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	own := 0
	for _, v := range volumes.Items {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == n.name {
			own++
		}
	}
	if len(claims.Items)+len(pods.Items)+own > 0 {
		return fmt.Errorf("there are %d claims, %d pods and %d volumes", len(claims.Items), len(pods.Items), own)
	}
	return nil
}

// exceeds waits until the DataVolume has what KubeVirt looks for: the reason ErrExceededQuota in Bound and Ready, with a
// message that has all the parts.
func (n *tenant) exceeds(name string, parts ...string) {
	n.t.Helper()
	n.eventually(told, "the DataVolume says ErrExceededQuota", func() error {
		dv := get(n, name, &cdiv1.DataVolume{})
		for _, kind := range []cdiv1.DataVolumeConditionType{cdiv1.DataVolumeBound, cdiv1.DataVolumeReady} {
			c := condition(dv, kind)
			lacks := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.Message, part) })
			if c.Status != corev1.ConditionFalse || c.Reason != "ErrExceededQuota" || lacks {
				return fmt.Errorf("its condition is %+v", c)
			}
		}
		if dv.Status.Phase != cdiv1.Pending {
			return fmt.Errorf("its phase is %s", dv.Status.Phase)
		}
		return nil
	})
}

// stays checks that something holds for a while.
func (n *tenant) stays(long time.Duration, what string, check func() error) {
	n.t.Helper()
	for start := time.Now(); time.Since(start) < long; time.Sleep(lookEvery) {
		if err := check(); err != nil {
			n.t.Fatalf("it does not hold that %s: %v", what, err)
		}
	}
}
