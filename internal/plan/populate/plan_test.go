package populate

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// said is what a user and KubeVirt read of a status.
type said struct {
	Phase                  cdiv1.DataVolumePhase
	Condition              cdiv1.DataVolumeConditionType
	Status                 corev1.ConditionStatus
	Reason, Message, Ready string
}

// TestEveryWaitHasItsReason plans single worlds that no story passes through.
func TestEveryWaitHasItsReason(t *testing.T) {
	bound := func(s *sim) { s.settle(); s.bind(); s.settle() }
	warn := func(s *sim, uid, reason, message string) {
		e := corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message}
		e.InvolvedObject.UID = s.world.Claim.UID
		if uid == "worker" {
			e.InvolvedObject.UID = s.world.Worker.UID
		}
		s.world.Warnings = append(s.world.Warnings, e)
	}
	for name, c := range map[string]struct {
		dv    func(*cdiv1.DataVolume)
		world func(*sim)
		want  said
	}{
		"the class does not exist": {
			func(dv *cdiv1.DataVolume) { dv.Spec.Storage.StorageClassName = new("fast") }, func(*sim) {},
			said{"", cdiv1.DataVolumeBound, "False", cdi.ReasonErrClaimNotValid, `StorageClass "fast" does not exist: use one of replicated, or ask the administrator to create it`, cdi.ReasonErrClaimNotValid},
		},
		"the source is not served": {
			func(dv *cdiv1.DataVolume) {
				dv.Spec.Source = &cdiv1.DataVolumeSource{S3: &cdiv1.DataVolumeSourceS3{}}
			}, func(*sim) {},
			said{"", cdiv1.DataVolumeBound, "False", cdi.ReasonErrClaimNotValid, "source s3 is not served by this version of vmdisk: it fills disks from http, blank, pvc and snapshot sources", cdi.ReasonErrClaimNotValid},
		},
		"the URL is none": {
			func(dv *cdiv1.DataVolume) { dv.Spec.Source.HTTP.URL = "debian.qcow2" }, func(*sim) {},
			said{"", cdiv1.DataVolumeBound, "False", cdi.ReasonErrClaimNotValid, "the DataVolume's source can't be read: the URL must begin with http:// or https:// and name a host", cdi.ReasonErrClaimNotValid},
		},
		"a source and a snapshot would both fill the disk": {
			func(dv *cdiv1.DataVolume) {
				dv.Spec.Storage.DataSource = &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "yesterday"}
			}, func(*sim) {},
			said{"", cdiv1.DataVolumeBound, "False", cdi.ReasonErrClaimNotValid, "the DataVolume has a source, and a dataSource or dataSourceRef in its claim, so that two would fill the disk: keep one of them", cdi.ReasonErrClaimNotValid},
		},
		"the source was changed to one that is not served": {
			nil, func(s *sim) {
				s.settle()
				s.bind()
				s.world.DataVolume = s.world.DataVolume.DeepCopy()
				s.world.DataVolume.Spec.Source = &cdiv1.DataVolumeSource{Upload: &cdiv1.DataVolumeSourceUpload{}}
			},
			said{"", cdiv1.DataVolumeRunning, "False", cdi.ReasonErrClaimNotValid, "source upload is not served by this version of vmdisk: it fills disks from http, blank, pvc and snapshot sources", cdi.ReasonErrClaimNotValid},
		},
		"the claim is to be restored from a backup": {
			func(dv *cdiv1.DataVolume) {
				dv.Annotations[cdi.PrePopulated] = "web-root"
				dv.Spec.Source = &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{}}
			}, func(*sim) {},
			said{cdiv1.Pending, cdiv1.DataVolumeBound, "False", cdi.ReasonNotFound, "waiting for claim web-root to be restored, as the annotation cdi.kubevirt.io/storage.prePopulated says", ""},
		},
		"a claim is taken over, whatever the source was": {
			func(dv *cdiv1.DataVolume) {
				dv.Annotations[cdi.AllowClaimAdoption] = "true"
				dv.Spec.Source = &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{}}
			}, func(s *sim) {
				s.world.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-root", UID: "c"}}
				s.world.Claim.Status.Phase = corev1.ClaimBound
			},
			said{cdiv1.Succeeded, cdiv1.DataVolumeBound, "True", cdi.ReasonBound, "PVC web-root Bound", ""},
		},
		"the claim's class is gone": {
			nil, func(s *sim) { s.settle(); s.world.Cluster.Classes = nil },
			said{cdiv1.Pending, cdiv1.DataVolumeBound, "False", cdi.ReasonPending, "PVC web-root Pending: it has no StorageClass that could make its volume, so it waits for a PersistentVolume that somebody makes for it", ""},
		},
		"a claim of the name is somebody else's": {
			nil, func(s *sim) {
				s.world.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-root", UID: "c"}}
			},
			said{cdiv1.Pending, cdiv1.DataVolumeBound, "False", cdi.ReasonErrResourceExists, "claim web-root exists already and is not this DataVolume's: delete it, choose another name, or set the annotation cdi.kubevirt.io/allowClaimAdoption=true to take it over as it is", cdi.ReasonErrResourceExists},
		},
		"the claim can't be marked as filled": {
			nil, func(s *sim) {
				bound(s)
				s.end(job.Result{Outcome: job.Succeeded})
				s.refuse, s.refuseChanges = "a policy denied the request: no", true
			},
			said{cdiv1.ImportInProgress, cdiv1.DataVolumeRunning, "False", cdi.ReasonError, "the API server refused to annotate PersistentVolumeClaim web-root: a policy denied the request: no", ""},
		},
		"a claim of an earlier disk of the name is still going": {
			nil, func(s *sim) {
				s.world.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-root", UID: "c", DeletionTimestamp: &metav1.Time{Time: s.now}}}
			},
			said{cdiv1.Pending, cdiv1.DataVolumeBound, "False", cdi.ReasonPending, "PVC web-root is being deleted; a new one is made once it is gone", ""},
		},
		"the provisioner has no room": {
			nil, func(s *sim) {
				s.settle()
				warn(s, "claim", "ProvisioningFailed", `failed to provision volume with StorageClass "replicated": rpc error: code = ResourceExhausted desc = no room on node-a`)
			},
			said{cdiv1.Pending, cdiv1.DataVolumeBound, "False", "ProvisioningFailed", "PVC web-root Pending: the storage driver could not make the volume: no room on node-a", ""},
		},
		"a consumer has come, and the provisioner has no room": {
			nil, func(s *sim) {
				s.world.Cluster = volume.Cluster{Classes: []storagev1.StorageClass{waitingClass}, Profiles: profilesOf([]storagev1.StorageClass{waitingClass})}
				s.settle()
				warn(s, "claim", "ProvisioningFailed", `failed to provision volume with StorageClass "local": rpc error: code = ResourceExhausted desc = no room on node-a`)
			},
			said{cdiv1.WaitForFirstConsumer, cdiv1.DataVolumeBound, "False", "ProvisioningFailed", "PVC web-root Pending: the storage driver could not make the volume: no room on node-a", ""},
		},
		"a node asks a moment too early": {
			nil, func(s *sim) {
				bound(s)
				warn(s, "worker", "FailedMount", `configmap "ca" not found`)
				warn(s, "worker", "FailedMount", `persistentvolumeclaims "disk" is forbidden: no relationship found between node 'node-b' and this object`)
			},
			said{cdiv1.ImportScheduled, cdiv1.DataVolumeRunning, "False", "FailedMount", `configmap "ca" not found in the disk's namespace: create it, and the import goes on by itself`, ""},
		},
		"the volume is lost": {
			nil, func(s *sim) { bound(s); s.world.Claim.Status.Phase = corev1.ClaimLost },
			said{cdiv1.Failed, cdiv1.DataVolumeBound, "False", cdi.ReasonClaimLost, "the volume of claim web-root is gone, and the disk's bytes with it: delete the disk and make it again", ""},
		},
		"no node takes the worker": {
			nil, func(s *sim) {
				bound(s)
				s.world.Worker.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/2 nodes are available: 2 Insufficient cpu."}}
			},
			said{cdiv1.ImportScheduled, cdiv1.DataVolumeRunning, "False", cdi.ReasonUnschedulable, "no node takes the worker: 0/2 nodes are available: 2 Insufficient cpu.", ""},
		},
		"a node was found at last": {
			nil, func(s *sim) { bound(s); warn(s, "worker", "FailedScheduling", "0/2 nodes are available") },
			said{cdiv1.ImportScheduled, cdiv1.DataVolumeRunning, "False", cdi.ReasonPending, "", ""},
		},
		"the worker has ended, and a mesh's proxy beside it has not": {
			nil, func(s *sim) {
				bound(s)
				s.end(job.Result{Outcome: job.Refused, Message: "an HTML page"})
				s.world.Worker.Status.Phase = corev1.PodRunning
				s.world.Worker.Status.ContainerStatuses = append([]corev1.ContainerStatus{{Name: "proxy"}}, s.world.Worker.Status.ContainerStatuses...)
			},
			said{cdiv1.Failed, cdiv1.DataVolumeRunning, "False", cdi.ReasonError, "an HTML page", ""},
		},
		"the worker's image can't be pulled": {
			nil, func(s *sim) {
				bound(s)
				s.world.Worker.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "importer", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
			},
			said{cdiv1.ImportScheduled, cdiv1.DataVolumeRunning, "False", cdi.ReasonImagePullFailed, "the node can't pull the worker's image: not found", ""},
		},
		"a ConfigMap does not exist": {
			nil, func(s *sim) {
				bound(s)
				warn(s, "worker", "FailedMount", `MountVolume.SetUp failed for volume "input-0" : configmap "ca" not found`)
			},
			said{cdiv1.ImportScheduled, cdiv1.DataVolumeRunning, "False", "FailedMount", `configmap "ca" not found in the disk's namespace: create it, and the import goes on by itself`, ""},
		},
		"the worker is over a quota": {
			nil, func(s *sim) {
				s.settle()
				s.bind()
				s.refuse = `pods "importer-uid-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`
			},
			said{cdiv1.ImportScheduled, cdiv1.DataVolumeRunning, "False", cdi.ReasonErrExceededQuota, `quota "q" has no room for the worker: it asks pods=1, used are pods=2 of pods=2; it goes on by itself once the quota is raised or something else is deleted`, ""},
		},
		"a policy refuses the worker": {
			nil, func(s *sim) { s.settle(); s.bind(); s.refuse = `admission webhook "policy" denied the request: no` },
			said{cdiv1.ImportScheduled, cdiv1.DataVolumeRunning, "False", cdi.ReasonErrStartingPod, `the API server refused the worker: admission webhook "policy" denied the request: no`, ""},
		},
		"a worker on a lost node is being removed": {
			nil, func(s *sim) {
				bound(s)
				s.run(50, 100)
				s.world.Worker.Spec.NodeName = "node-b"
				s.do(deleteWorker(s))
			},
			said{cdiv1.ImportInProgress, cdiv1.DataVolumeRunning, "False", cdi.ReasonPending, "worker importer-uid-1 is being removed from node node-b; the next begins once it is gone, since two writers would corrupt the disk", ""},
		},
		"the checksum is wrong": {
			nil, func(s *sim) {
				bound(s)
				s.end(job.Result{Outcome: job.Refused, Reason: "ChecksumMismatch", Message: "wrong"})
			},
			said{cdiv1.Failed, cdiv1.DataVolumeRunning, "False", cdi.ReasonChecksumError, "wrong", ""},
		},
		"the worker ran out of memory": {
			nil, func(s *sim) {
				bound(s)
				s.end(job.Result{})
				s.world.Worker.Status.ContainerStatuses[0].State.Terminated.Message = ""
				s.world.Worker.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
			},
			said{cdiv1.ImportInProgress, cdiv1.DataVolumeRunning, "False", cdi.ReasonError, "the worker needed more memory than its limit of 0: ask the administrator to raise podResourceRequirements in the CDI object's config (attempt 1; the next try is at 20:00:05 UTC)", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(dataVolume(c.dv), immediateClass)
			c.world(s)
			s.settle()
			st := s.world.DataVolume.Status
			kind := c.want.Condition
			got, _ := find(st.Conditions, kind)
			ready, _ := find(st.Conditions, cdiv1.DataVolumeReady)
			if diff := cmp.Diff(c.want, said{st.Phase, kind, got.Status, got.Reason, got.Message, ready.Reason}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAClaimThatWasMadeKeepsItsShape changes the cluster's default and profile between the claim and its worker.
func TestAClaimThatWasMadeKeepsItsShape(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	s.settle()
	s.bind()
	s.world.Cluster.Classes = []storagev1.StorageClass{waitingClass}
	s.world.Cluster.Profiles[0].Status.ClaimPropertySets[0].VolumeMode = new(corev1.PersistentVolumeFilesystem)
	s.settle()
	if s.world.Worker == nil {
		t.Fatal("there is no worker")
	}
	want := []corev1.VolumeDevice{{Name: "disk", DevicePath: pod.DevicePath}}
	if diff := cmp.Diff(want, s.world.Worker.Spec.Containers[0].VolumeDevices); diff != "" {
		t.Error(diff)
	}
}

func TestAClaimInheritsFromItsDataVolume(t *testing.T) {
	dv := dataVolume(func(dv *cdiv1.DataVolume) {
		dv.Labels = map[string]string{"team": "web", "app": "web"}
		dv.Annotations = map[string]string{
			"backup.example/policy": "daily", "note": "ours",
			cdi.BindImmediate: "", cdi.PopulatedFor: "web-root", v1alpha1.MemoryAnnotation: "{}",
			"kubectl.kubernetes.io/last-applied-configuration": "{}", "pv.kubernetes.io/bind-completed": "yes",
		}
	})
	s := newSim(dv, immediateClass)
	s.settle()
	want := metav1.ObjectMeta{
		Namespace: "tenant-a", Name: "web-root", UID: "uid-1", CreationTimestamp: metav1.Time{Time: s.now}, OwnerReferences: []metav1.OwnerReference{ownerOf(dv)},
		Labels:      map[string]string{"team": "web", "app": "containerized-data-importer", "app.kubernetes.io/managed-by": "cdi-controller", "app.kubernetes.io/component": "storage"},
		Annotations: map[string]string{"backup.example/policy": "daily", "note": "ours", cdi.ContentType: "kubevirt", cdi.UsePopulator: "false"},
	}
	if diff := cmp.Diff(want, s.world.Claim.ObjectMeta); diff != "" {
		t.Error(diff)
	}
}

// TestWhoeverAsksForAPopulatorIsToldThatThereIsNone: virtctl looks for another claim behind one that a populator is said to fill.
func TestWhoeverAsksForAPopulatorIsToldThatThereIsNone(t *testing.T) {
	s := newSim(dataVolume(func(dv *cdiv1.DataVolume) { dv.Annotations = map[string]string{cdi.UsePopulator: "true"} }), immediateClass)
	s.settle()
	s.bind()
	s.settle()
	if got := s.world.Claim.Annotations[cdi.UsePopulator] + " " + s.world.DataVolume.Annotations[cdi.UsePopulator]; got != "false false" {
		t.Errorf("the claim and the DataVolume say %q", got)
	}
}

func TestTheClaimCanBeToldNotToWait(t *testing.T) {
	s := newSim(dataVolume(nil), waitingClass)
	s.settle()
	if phase := s.world.DataVolume.Status.Phase; phase != cdiv1.WaitForFirstConsumer {
		t.Fatalf("it is %s before", phase)
	}
	s.world.Claim = s.world.Claim.DeepCopy()
	s.world.Claim.Annotations[cdi.BindImmediate] = ""
	s.settle()
	if phase := s.world.DataVolume.Status.Phase; phase != cdiv1.ImportScheduled {
		t.Errorf("it is %s afterwards", phase)
	}
}

func TestALogThatCannotBeReadForOnceTakesNothingBack(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	s.settle()
	s.bind()
	s.settle()
	var got []cdiv1.DataVolumeProgress
	for _, seen := range []*Log{nil, {Progress: job.Progress{DoneBytes: 1, TotalBytes: 2}}, nil, {Progress: job.Progress{DoneBytes: 3, TotalBytes: 4}}} {
		s.run(0, 0)
		s.world.Log = seen
		s.settle()
		got = append(got, s.world.DataVolume.Status.Progress)
	}
	if diff := cmp.Diff([]cdiv1.DataVolumeProgress{"N/A", "50.00%", "50.00%", "75.00%"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestWhatKeepsAWorkerFromRunningIsAnEvent also counts: a DataVolume made by hand has nobody else to tell.
func TestWhatKeepsAWorkerFromRunningIsAnEvent(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	s.settle()
	s.bind()
	s.refuse = `admission webhook "policy" denied the request: no`
	s.settle()
	s.now = s.now.Add(time.Minute)
	s.settle()
	const line = `  event   Warning ErrStartingPod: the API server refused the worker: admission webhook "policy" denied the request: no`
	if n := strings.Count(s.log.String(), line); n != 1 {
		t.Errorf("the refusal is told %d times, want once:\n%s", n, s.log.String())
	}
}

// TestAnOldViewStartsNoWorker shows the DataVolume and claim as they were before the worker's end was noted on them, and the pod as gone
// already. The first action must be one that the API server refuses on an old DataVolume, so that none follows.
func TestAnOldViewStartsNoWorker(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	s.settle()
	s.bind()
	s.settle()
	old := s.world
	s.end(job.Result{Outcome: job.Succeeded})
	s.settle()
	old.Worker = nil
	actions := Plan(old, s.now).Actions
	note, ok := actions[0].(action.Annotate)
	if !ok || note.Object != action.Object(old.DataVolume) {
		t.Errorf("the first action is %v, want one that needs the DataVolume to be as it was observed", actions[0])
	}
	if s.world.DataVolume.Annotations[v1alpha1.MemoryAnnotation] == old.DataVolume.Annotations[v1alpha1.MemoryAnnotation] {
		t.Error("the worker's end was not noted on the DataVolume, so that an old one can't be told from a new one")
	}
}
