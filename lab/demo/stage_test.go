package demo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

func TestRender(t *testing.T) {
	objects, err := render("tenant.yaml", map[string]string{"CA": "-----BEGIN\n\"a\": b\n"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, object.GetKind()+" "+object.GetName())
	}
	want := []string{"Namespace tenant-a", "ResourceQuota quota", "ResourceQuota default-zero-quota",
		"NetworkPolicy allow-debian-image-download", "NetworkPolicy allow-debian-vm-internet", "NetworkPolicy allow-dns",
		"ConfigMap images-ca"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	data := map[string]any{"ca.crt": "-----BEGIN\n\"a\": b\n"}
	if diff := cmp.Diff(any(data), objects[6].Object["data"]); diff != "" {
		t.Errorf("a value of several lines was changed: %s", diff)
	}
	if _, err := render("tenant.yaml", nil); err == nil || !strings.Contains(err.Error(), "no value for ${CA}") {
		t.Errorf("a missing value gave %v", err)
	}
}

func quota(claims, storage string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{
		Hard: corev1.ResourceList{"persistentvolumeclaims": resource.MustParse("1"), "requests.storage": resource.MustParse("20Gi")},
		Used: corev1.ResourceList{"persistentvolumeclaims": resource.MustParse(claims), "requests.storage": resource.MustParse(storage)},
	}}
}

func claim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}}
}

func TestUsageRemembersTheMost(t *testing.T) {
	u := newUsage("ns", "system")
	for _, q := range []*corev1.ResourceQuota{quota("0", "0"), quota("1", "20Gi"), quota("0", "0")} {
		u.seeQuota(q)
	}
	u.seeClaim(watch.Added, claim("disk", "20Gi"))
	u.seeClaim(watch.Modified, claim("disk", "20Gi"))
	u.seeClaim(watch.Added, claim("scratch", "1Gi"))
	other := claim("other", "100Gi")
	other.Namespace = "other"
	u.seeClaim(watch.Added, other)
	u.seeClaim(watch.Deleted, claim("scratch", "1Gi"))
	var out bytes.Buffer
	if err := u.print(&out); err != nil {
		t.Fatal(err)
	}
	want := "  QUOTA                    USED   MOST SEEN   HARD\n" +
		"  persistentvolumeclaims   0      1           1\n" +
		"  requests.storage         0      20Gi        20Gi\n" +
		"  Claims in ns and system, at most at one time: 2 (ns/disk, ns/scratch), 21Gi together\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestUsageDiffersFromTheDisksShare(t *testing.T) {
	disk := claim("disk", "20Gi")
	tests := map[string]struct {
		quotas []*corev1.ResourceQuota
		claims []*corev1.PersistentVolumeClaim
		want   string
	}{
		"exactly the disk's share is fine": {
			quotas: []*corev1.ResourceQuota{quota("0", "0"), quota("1", "20Gi")}, claims: []*corev1.PersistentVolumeClaim{disk}},
		"a second claim for a moment is told": {
			quotas: []*corev1.ResourceQuota{quota("2", "20Gi"), quota("1", "20Gi")}, want: "persistentvolumeclaims 2"},
		"one byte too many is told": {
			quotas: []*corev1.ResourceQuota{quota("1", "21474836481")}, want: "requests.storage 21474836481"},
		"a claim that no quota counts is told": {
			quotas: []*corev1.ResourceQuota{quota("1", "20Gi")}, claims: []*corev1.PersistentVolumeClaim{disk, claim("scratch", "1Gi")},
			want: "2 claims at one time (ns/disk, ns/scratch)"},
		"a quota that was never seen is no proof":              {want: "was it seen at all"},
		"a quota that never counted the disk's is no proof":    {quotas: []*corev1.ResourceQuota{quota("0", "0")}, want: "persistentvolumeclaims 0"},
		"a disk whose claim was never seen is no proof either": {quotas: []*corev1.ResourceQuota{quota("1", "20Gi")}, want: "0 claims"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u := newUsage("ns")
			for _, q := range test.quotas {
				u.seeQuota(q)
			}
			for _, c := range test.claims {
				u.seeClaim(watch.Added, c)
			}
			err := u.differs(20 << 30)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// watched is a client whose watches are the given ones, one after another.
type watched struct {
	client.WithWatch
	watches []*watch.FakeWatcher
}

func (w *watched) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	if len(w.watches) == 0 {
		return nil, errors.New("the server is away")
	}
	next := w.watches[0]
	w.watches = w.watches[1:]
	return next, nil
}

func disk(phase, progress string, workloads metav1.ConditionStatus, message string) *v1alpha1.VMDisk {
	return &v1alpha1.VMDisk{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}, Status: v1alpha1.VMDiskStatus{
		Phase: phase, Progress: progress, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionWorkloadsReady, Status: workloads, Message: message}}}}
}

func TestShowProgress(t *testing.T) {
	tests := map[string]struct {
		watches [][]*v1alpha1.VMDisk
		shown   string
		err     string
	}{
		"each change has a row, and the same thing twice has one": {
			watches: [][]*v1alpha1.VMDisk{{
				disk("", "", metav1.ConditionFalse, ""),
				disk("ImportInProgress", "41.75%", metav1.ConditionFalse, "downloading"),
				disk("ImportInProgress", "41.75%", metav1.ConditionFalse, "downloading"),
				disk("Succeeded", "100.0%", metav1.ConditionTrue, "ready"),
			}},
			shown: "    0.0s  -                  [....................]\n" +
				"    0.0s  ImportInProgress   [########............]  41.75%  downloading\n" +
				"    0.0s  Succeeded          [####################]  100.0%\n",
		},
		"a watch that the server ends is opened again": {
			watches: [][]*v1alpha1.VMDisk{
				{disk("ImportInProgress", "N/A", metav1.ConditionFalse, "")},
				{disk("ImportInProgress", "N/A", metav1.ConditionFalse, ""), disk("Succeeded", "100.0%", metav1.ConditionTrue, "")},
			},
			shown: "    0.0s  ImportInProgress   [....................]     N/A\n" +
				"    1.0s  Succeeded          [####################]  100.0%\n",
		},
		"a disk that failed ends with its own words": {
			watches: [][]*v1alpha1.VMDisk{{disk("Failed", "", metav1.ConditionFalse, "an HTML page, not an image")}},
			shown:   "    0.0s  Failed             [....................]          an HTML page, not an image\n",
			err:     "wait for the disk: the disk ns/d failed: an HTML page, not an image",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &watched{}
				for _, disks := range test.watches {
					w := watch.NewFakeWithChanSize(len(disks), false)
					for _, d := range disks {
						w.Modify(d)
					}
					// Its end comes after the disks that wait in it.
					w.Stop()
					c.watches = append(c.watches, w)
				}
				var out bytes.Buffer
				_, err := showProgress(t.Context(), c, client.ObjectKey{Namespace: "ns", Name: "d"}, time.Now(), &out)
				if diff := cmp.Diff(test.shown, out.String()); diff != "" {
					t.Error(diff)
				}
				got := ""
				if err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(test.err, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("not within a moment")
	cancel(late)
	err := follow(ctx, &watched{}, &v1alpha1.VMDiskList{}, nil, func() {}, func(watch.EventType, client.Object) error { return nil })
	if !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
}
