package populate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
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
			said{"", cdiv1.DataVolumeBound, "False", cdi.ReasonErrClaimNotValid, "source s3 is not served by this version of vmdisk: it fills disks from http and blank sources", cdi.ReasonErrClaimNotValid},
		},
		"a claim of the name is somebody else's": {
			nil, func(s *sim) {
				s.world.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-root", UID: "c"}}
			},
			said{cdiv1.Pending, cdiv1.DataVolumeBound, "False", cdi.ReasonErrResourceExists, "claim web-root exists already and is not this DataVolume's: delete it, choose another name, or set the annotation cdi.kubevirt.io/allowClaimAdoption=true to take it over as it is", cdi.ReasonErrResourceExists},
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
