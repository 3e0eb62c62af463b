package disk

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/clone"
)

func vmdisk(change func(*v1alpha1.VMDisk)) *v1alpha1.VMDisk {
	d := &v1alpha1.VMDisk{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "disk-uid", Generation: 1},
		Spec:       v1alpha1.VMDiskSpec{Storage: new(resource.MustParse("20Gi"))},
	}
	if change != nil {
		change(d)
	}
	return d
}

// made is the DataVolume that a disk is made through, in a phase.
func made(d *v1alpha1.VMDisk, phase cdiv1.DataVolumePhase, conditions ...cdiv1.DataVolumeCondition) *cdiv1.DataVolume {
	dv := World{Disk: d}.render()
	dv.Status.Phase, dv.Status.Conditions, dv.Status.Progress = phase, conditions, "N/A"
	return dv
}

func condition(kind cdiv1.DataVolumeConditionType, status corev1.ConditionStatus, reason, message string) cdiv1.DataVolumeCondition {
	return cdiv1.DataVolumeCondition{Type: kind, Status: status, Reason: reason, Message: message}
}

const (
	runs  = cdiv1.DataVolumeRunning
	bound = cdiv1.DataVolumeBound
)

func TestConditions(t *testing.T) {
	type said struct {
		Status          metav1.ConditionStatus
		Reason, Message string
	}
	plain := vmdisk(nil)
	resting := vmdisk(func(d *v1alpha1.VMDisk) { d.Spec.BindImmediately = new(false) })
	image := vmdisk(func(d *v1alpha1.VMDisk) {
		d.Spec.Source = &v1alpha1.Source{Upload: &v1alpha1.UploadSource{}}
	})
	for name, c := range map[string]struct {
		world            World
		ready, workloads said
	}{
		"a new disk": {
			World{Disk: plain},
			said{"True", Accepted, "the disk is made through DataVolume web-root"},
			said{"False", DataVolumeNotReady, "DataVolume web-root is not there yet"},
		},
		"a source that this version lacks": {
			World{Disk: image},
			said{"False", SourceNotServed, "this version of vmdisk does not serve source.upload: use source.http, image or disk, or no source for a blank disk"},
			said{"False", DataVolumeNotReady, "this version of vmdisk does not serve source.upload: use source.http, image or disk, or no source for a blank disk"},
		},
		"somebody else's DataVolume": {
			World{Disk: plain, DataVolume: &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: "web-root"}}},
			said{"False", DataVolumeExists, "DataVolume web-root exists already and is not this disk's: delete it, or choose another name for the disk"},
			said{"False", DataVolumeNotReady, "DataVolume web-root exists already and is not this disk's: delete it, or choose another name for the disk"},
		},
		"a quota has no room for another DataVolume": {
			World{Disk: plain, Refusal: &action.Refusal{Text: `datavolumes.cdi.kubevirt.io "web-root" is forbidden: exceeded quota: q, requested: count/datavolumes.cdi.kubevirt.io=1, used: count/datavolumes.cdi.kubevirt.io=3, limited: count/datavolumes.cdi.kubevirt.io=3`}},
			said{"False", DataVolumeRefused, `quota "q" has no room for DataVolume web-root: it asks count/datavolumes.cdi.kubevirt.io=1, used are count/datavolumes.cdi.kubevirt.io=3 of count/datavolumes.cdi.kubevirt.io=3; it goes on by itself once the quota is raised or something else is deleted`},
			said{"False", DataVolumeNotReady, `quota "q" has no room for DataVolume web-root: it asks count/datavolumes.cdi.kubevirt.io=1, used are count/datavolumes.cdi.kubevirt.io=3 of count/datavolumes.cdi.kubevirt.io=3; it goes on by itself once the quota is raised or something else is deleted`},
		},
		"a quota has no room": {
			World{Disk: plain, DataVolume: made(plain, cdiv1.Pending, condition(bound, "False", "ErrExceededQuota", `quota "q" has no room`))},
			said{"True", Accepted, "the disk is made through DataVolume web-root"},
			said{"False", DataVolumeNotReady, `DataVolume web-root is Pending: quota "q" has no room`},
		},
		"the source fails": {
			World{Disk: plain, DataVolume: made(plain, cdiv1.ImportInProgress, condition(bound, "True", "Bound", "PVC web-root Bound"), condition(runs, "False", "Error", "404 Not Found from https://x/y (attempt 2; the next try is at 20:00:10 UTC)"))},
			said{"True", Accepted, "the disk is made through DataVolume web-root"},
			said{"False", DataVolumeNotReady, "DataVolume web-root is ImportInProgress: 404 Not Found from https://x/y (attempt 2; the next try is at 20:00:10 UTC)"},
		},
		"a retry runs": {
			World{Disk: plain, DataVolume: made(plain, cdiv1.ImportInProgress, condition(runs, "True", "Pod is running", "attempt 3 runs; attempt 2 ended with: 404 Not Found from https://x/y"))},
			said{"True", Accepted, "the disk is made through DataVolume web-root"},
			said{"False", DataVolumeNotReady, "DataVolume web-root is ImportInProgress: attempt 3 runs; attempt 2 ended with: 404 Not Found from https://x/y"},
		},
		"the bytes are there": {
			World{Disk: plain, DataVolume: made(plain, cdiv1.Succeeded)},
			said{"True", Accepted, "the disk is made through DataVolume web-root"},
			said{"True", Succeeded, "DataVolume web-root is Succeeded: the disk holds its bytes"},
		},
		"it rests until its machine comes": {
			World{Disk: resting, DataVolume: made(resting, cdiv1.WaitForFirstConsumer)},
			said{"True", Accepted, "the disk is made through DataVolume web-root"},
			said{"True", WaitingForConsumer, "DataVolume web-root is WaitForFirstConsumer: with bindImmediately off, the disk is filled when its virtual machine starts"},
		},
		"its machine has come, and there is no room": {
			World{Disk: resting, DataVolume: made(resting, cdiv1.WaitForFirstConsumer, condition(bound, "False", "ProvisioningFailed", "no room on node-a"))},
			said{"True", Accepted, "the disk is made through DataVolume web-root"},
			said{"False", DataVolumeNotReady, "DataVolume web-root is WaitForFirstConsumer: no room on node-a"},
		},
		"it waits though it was told not to": {
			World{Disk: plain, DataVolume: made(plain, cdiv1.WaitForFirstConsumer)},
			said{"True", Accepted, "the disk is made through DataVolume web-root"},
			said{"False", DataVolumeNotReady, "DataVolume web-root is WaitForFirstConsumer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Plan(c.world, time.Unix(1, 0))
			var got []said
			for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionWorkloadsReady} {
				f := meta.FindStatusCondition(d.Status.Conditions, kind)
				got = append(got, said{f.Status, f.Reason, f.Message})
			}
			if diff := cmp.Diff([]said{c.ready, c.workloads}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheDataVolumeFollowsWhatMayChange(t *testing.T) {
	const now, optical, placement = "cdi.kubevirt.io/storage.bind.immediate.requested", "vm-disk.cozystack.io/optical", "vmdisk.io/placement"
	inZone := func(zone string) v1alpha1.VMDiskSpec {
		return v1alpha1.VMDiskSpec{Placement: &v1alpha1.Placement{NodeSelector: map[string]string{"zone": zone}}}
	}
	for name, c := range map[string]struct {
		before, after v1alpha1.VMDiskSpec
		want          map[string]string // what the DataVolume is told; nil: nothing
	}{
		"nothing has changed":                   {v1alpha1.VMDiskSpec{Optical: true}, v1alpha1.VMDiskSpec{Optical: true}, nil},
		"it is no longer to wait":               {v1alpha1.VMDiskSpec{BindImmediately: new(false)}, v1alpha1.VMDiskSpec{}, map[string]string{now: "true"}},
		"it is to wait, which is too late":      {v1alpha1.VMDiskSpec{}, v1alpha1.VMDiskSpec{BindImmediately: new(false)}, nil},
		"it is to be presented as a CD-ROM":     {v1alpha1.VMDiskSpec{}, v1alpha1.VMDiskSpec{Optical: true}, map[string]string{optical: "true"}},
		"it is no longer presented as a CD-ROM": {v1alpha1.VMDiskSpec{Optical: true}, v1alpha1.VMDiskSpec{}, map[string]string{optical: "false"}},
		"its workers are where they were":       {inZone("a"), inZone("a"), nil},
		"its workers are to run elsewhere":      {inZone("a"), inZone("b"), map[string]string{placement: `{"nodeSelector":{"zone":"b"}}`}},
		"its workers may run anywhere":          {inZone("a"), v1alpha1.VMDiskSpec{Placement: &v1alpha1.Placement{}}, map[string]string{placement: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			d := vmdisk(func(d *v1alpha1.VMDisk) { d.Spec = c.before })
			dv := made(d, cdiv1.WaitForFirstConsumer)
			d.Spec = c.after
			var want []action.Action
			if c.want != nil {
				want = []action.Action{action.Annotate{Object: dv, Annotations: c.want}}
			}
			if diff := cmp.Diff(want, Plan(World{Disk: d, DataVolume: dv}, time.Unix(1, 0)).Actions); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheClassIsThatOfTheDisksOwnClaim: a claim that an earlier disk of the name has left, and that is still on its way out, decides nothing.
func TestTheClassIsThatOfTheDisksOwnClaim(t *testing.T) {
	d := vmdisk(func(d *v1alpha1.VMDisk) { d.Spec.StorageClass = "asked" })
	dv := made(d, cdiv1.Pending)
	dv.UID = "dv-uid"
	claim := func(owner types.UID) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "web-root", OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}}},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("of-the-claim")},
		}
	}
	for name, c := range map[string]struct {
		world World
		want  string
	}{
		"there is no claim":                   {World{Disk: d, DataVolume: dv}, "asked"},
		"its own claim":                       {World{Disk: d, DataVolume: dv, Claim: claim("dv-uid")}, "of-the-claim"},
		"a claim of another DataVolume":       {World{Disk: d, DataVolume: dv, Claim: claim("earlier-uid")}, "asked"},
		"a claim, and no DataVolume so far":   {World{Disk: d, Claim: claim("earlier-uid")}, "asked"},
		"a disk that names none, and a claim": {World{Disk: vmdisk(nil), DefaultClass: "usual", Claim: claim("earlier-uid")}, "usual"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Plan(c.world, time.Unix(1, 0))
			if got.Status.StorageClass != c.want {
				t.Errorf("it shows class %q, want %q", got.Status.StorageClass, c.want)
			}
			if c.world.DataVolume == nil && *c.world.render().Spec.Storage.StorageClassName != c.want {
				t.Errorf("its DataVolume asks for class %q, want %q", *c.world.render().Spec.Storage.StorageClassName, c.want)
			}
		})
	}
}

func TestTheSizeIsTheOneThatTheDiskWasMadeWith(t *testing.T) {
	d := vmdisk(nil)
	if got := Plan(World{Disk: d}, time.Unix(1, 0)).Status.Size; got != "20Gi" {
		t.Errorf("a disk that is not made yet shows the size %q", got)
	}
	dv := made(d, cdiv1.Succeeded)
	d.Spec.Storage = new(resource.MustParse("30Gi"))
	if got := Plan(World{Disk: d, DataVolume: dv}, time.Unix(1, 0)).Status.Size; got != "20Gi" {
		t.Errorf("a disk that was asked to grow shows the size %q, before anything has made it so", got)
	}
}

func TestARetryThatMeetsTheSameAgainIsSilent(t *testing.T) {
	d := vmdisk(nil)
	w := World{Disk: d}
	step := func(message string, status corev1.ConditionStatus) []action.Event {
		w.DataVolume = made(d, cdiv1.ImportInProgress, condition(runs, status, "Error", message))
		decision := Plan(w, time.Unix(1, 0))
		w.Disk = w.Disk.DeepCopy()
		w.Disk.Status = decision.Status
		return decision.Events
	}
	var got [][]action.Event
	got = append(got,
		step("", "True"),
		step("404 from x (attempt 1; the next try is at 20:00:05 UTC)", "False"),
		step("attempt 2 runs; attempt 1 ended with: 404 from x", "True"),
		step("404 from x (attempt 2; the next try is at 20:00:15 UTC)", "False"),
		step("no such host x (attempt 3; the next try is at 20:00:35 UTC)", "False"),
	)
	want := [][]action.Event{
		{{Type: "Normal", Reason: "ImportInProgress", Message: "DataVolume web-root is ImportInProgress"}},
		{{Type: "Warning", Reason: "Error", Message: "404 from x"}},
		nil, nil,
		{{Type: "Warning", Reason: "Error", Message: "no such host x"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTroubleIsToldOnce(t *testing.T) {
	d := vmdisk(nil)
	w := World{Disk: d, DataVolume: made(d, cdiv1.Pending, condition(bound, "False", "ErrExceededQuota", `quota "q" has no room`))}
	want := []action.Event{
		{Type: "Normal", Reason: "Pending", Message: "DataVolume web-root is Pending"},
		{Type: "Warning", Reason: "ErrExceededQuota", Message: `quota "q" has no room`},
	}
	if diff := cmp.Diff(want, Plan(w, time.Unix(1, 0)).Events); diff != "" {
		t.Error(diff)
	}
}

func TestTwoTroublesAtOnceDoNotRepeatThemselves(t *testing.T) {
	d := vmdisk(nil)
	w := World{Disk: d, DataVolume: made(d, cdiv1.ImportScheduled, condition(bound, "False", "ProvisioningFailed", "no room"), condition(runs, "False", "Unschedulable", "no node"))}
	first := Plan(w, time.Unix(1, 0))
	w.Disk = d.DeepCopy()
	w.Disk.Status = first.Status
	if again := Plan(w, time.Unix(2, 0)); len(first.Events) != 2 || len(again.Events) != 0 {
		t.Errorf("first %v, and then again %v", first.Events, again.Events)
	}
}

func TestTheDataVolumeThatMakesADisk(t *testing.T) {
	d := vmdisk(func(d *v1alpha1.VMDisk) {
		d.Labels = map[string]string{"app": "web"}
		d.Spec.Optical = true
		d.Spec.Placement = &v1alpha1.Placement{NodeSelector: map[string]string{"zone": "a"}}
		d.Spec.Source = &v1alpha1.Source{HTTP: &v1alpha1.HTTPSource{URL: "https://x/y", CertConfigMap: "ca", ExtraHeaders: []string{"A: b"}}}
	})
	want := &cdiv1.DataVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "cdi.kubevirt.io/v1beta1", Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant-a", Name: "web-root", Labels: map[string]string{"app": "web"},
			Annotations:     map[string]string{"cdi.kubevirt.io/storage.bind.immediate.requested": "true", "vm-disk.cozystack.io/optical": "true", "vmdisk.io/placement": `{"nodeSelector":{"zone":"a"}}`},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "vmdisk.io/v1alpha1", Kind: "VMDisk", Name: "web-root", UID: "disk-uid", Controller: new(true), BlockOwnerDeletion: new(true)}},
		},
		Spec: cdiv1.DataVolumeSpec{
			Source: &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: "https://x/y", CertConfigMap: "ca", ExtraHeaders: []string{"A: b"}}},
			Storage: &cdiv1.StorageSpec{
				StorageClassName: new("replicated"),
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}},
			},
		},
	}
	got := Plan(World{Disk: d, DefaultClass: "replicated"}, time.Unix(1, 0)).Actions
	if diff := cmp.Diff([]action.Action{action.Create{Object: want}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestADiskFromAnotherVolumeNamesItsClaim(t *testing.T) {
	from := func(s v1alpha1.Source) *v1alpha1.VMDisk {
		return vmdisk(func(d *v1alpha1.VMDisk) { d.Spec.Source, d.Spec.Storage = &s, nil })
	}
	images := clone.Images{Namespace: "cozy-public", Prefix: "vm-default-images-"}
	for name, c := range map[string]struct {
		world World
		want  cdiv1.DataVolumeSourcePVC
	}{
		"an image":                        {World{Disk: from(v1alpha1.Source{Image: &v1alpha1.NamedSource{Name: "debian"}}), Images: images}, cdiv1.DataVolumeSourcePVC{Namespace: "cozy-public", Name: "vm-default-images-debian"}},
		"a disk":                          {World{Disk: from(v1alpha1.Source{Disk: &v1alpha1.NamedSource{Name: "base"}})}, cdiv1.DataVolumeSourcePVC{Namespace: "tenant-a", Name: "base"}},
		"a disk whose claim has a prefix": {World{Disk: from(v1alpha1.Source{Disk: &v1alpha1.NamedSource{Name: "base"}}), SourceClaim: "vm-disk-base"}, cdiv1.DataVolumeSourcePVC{Namespace: "tenant-a", Name: "vm-disk-base"}},
	} {
		t.Run(name, func(t *testing.T) {
			dv := c.world.render()
			if diff := cmp.Diff(&cdiv1.DataVolumeSource{PVC: &c.want}, dv.Spec.Source); diff != "" {
				t.Error(diff)
			}
			if len(dv.Spec.Storage.Resources.Requests) > 0 {
				t.Errorf("a disk without a size asks for %v: want its source's", dv.Spec.Storage.Resources.Requests)
			}
		})
	}
}

func TestADiskShowsHowItIsCloned(t *testing.T) {
	d := vmdisk(nil)
	dv := made(d, cdiv1.CSICloneInProgress)
	dv.Annotations = map[string]string{v1alpha1.CloneAnnotation: `{"strategy":"csi-clone","reason":"SameDriver","message":"the driver clones","source":"PersistentVolumeClaim a/b"}`}
	want := &v1alpha1.CloneStatus{Strategy: "csi-clone", Reason: "SameDriver", Message: "the driver clones", Source: "PersistentVolumeClaim a/b"}
	if diff := cmp.Diff(want, Plan(World{Disk: d, DataVolume: dv}, time.Time{}).Status.Clone); diff != "" {
		t.Error(diff)
	}
}
