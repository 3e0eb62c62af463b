package populator

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
)

var update = flag.Bool("update", false, "write the golden stories anew")

type line struct {
	what string
	do   func(*sim)
}

type story struct {
	sim   func() *sim
	lines []line
}

func withSecret(s *sim) { s.w.Source.Spec.Source.HTTP.SecretRef = "login" }

func onLaterClass(s *sim) { *s.w.Class.VolumeBindingMode = storagev1.VolumeBindingWaitForFirstConsumer }

func annotate(key, value string) func(*sim) {
	return func(s *sim) {
		s.w.Target = s.w.Target.DeepCopy()
		s.w.Target.Annotations[key] = value
	}
}

func stories() map[string]story {
	rest := []line{{"the volume is made", provisioned}, {"the worker runs", half}, {"the worker succeeds", full}}
	return map[string]story{
		"import": {func() *sim { return newSim(nil) }, append([]line{{"created", created}}, rest...)},
		"import-with-secret": {
			func() *sim { return newSim(withSecret) }, append([]line{{"created", created}}, rest...),
		},
		"waits-for-its-consumer": {
			func() *sim { return newSim(onLaterClass) },
			append([]line{{"created", created}, {"a pod's node is chosen", annotate(cdi.SelectedNode, "node-b")}}, rest...),
		},
		"waits-for-its-turn": {
			func() *sim {
				return newSim(func(s *sim) { s.w.Line.Quotas = []corev1.ResourceQuota{quotaOf("1", "1")} })
			},
			append([]line{{"created", created}, {"another one ends", func(s *sim) { s.w.Line.Quotas = []corev1.ResourceQuota{quotaOf("1", "0")} }}}, rest...),
		},
		"waits-for-its-secret": {
			func() *sim { return newSim(func(s *sim) { withSecret(s); delete(s.secrets, "tenant-a/login") }) },
			append([]line{{"created", created}, {"the Secret is created", func(s *sim) { s.secrets["tenant-a/login"] = true }}}, rest...),
		},
		"source-fails": {
			func() *sim { return newSim(withSecret) },
			append([]line{{"created", created}, {"the volume is made", provisioned}, {"404", fails(1)}}, rest[1:]...),
		},
		"gives-its-place-up": {
			func() *sim { return newSim(withSecret) },
			append([]line{{"created", created}, {"the volume is made", provisioned}, {"404", fails(1)},
				{"others come, and 404 again", func(s *sim) {
					s.w.Line.Quotas, s.w.Line.Waiting = []corev1.ResourceQuota{quotaOf("1", "1")}, []Waiting{waitingFor("t2", "tenant-b", s.now)}
					fails(3)(s)
				}},
				{"they have ended", func(s *sim) { s.w.Line = Line{} }}}, rest...),
		},
		"temporary-claim-is-lost": {
			func() *sim { return newSim(nil) },
			append([]line{{"created", created}, {"the volume is made", provisioned}, {"the worker runs", half},
				{"somebody deletes the volume", withoutVolume}}, rest...),
		},
		"refused": {
			func() *sim {
				return newSim(func(s *sim) { s.refuse, s.refuses = "the namespace is being terminated", creations })
			},
			append([]line{{"created", created}, {"it may", may}}, rest...),
		},
		"temporary-claim-is-deleted": {
			func() *sim { return newSim(withSecret) },
			append([]line{{"created", created}, {"the volume is made", provisioned}, {"the worker runs", half}, {"somebody deletes the claim", withoutClaim}}, rest...),
		},
		"temporary-disk-is-deleted": {
			func() *sim { return newSim(withSecret) },
			append([]line{{"created", created}, {"the volume is made", provisioned}, {"the worker runs", half}, {"somebody deletes the DataVolume", withoutDataVolume}}, rest...),
		},
		"handing-over-is-refused": {
			func() *sim { return newSim(func(s *sim) { s.refuse, s.refuses = "a policy forbids it", changes }) },
			append(append([]line{{"created", created}}, rest...), line{"it may", may}),
		},
	}
}

func (s story) play(m *sim) {
	for _, l := range s.lines {
		m.printf("%s", l.what)
		l.do(m)
		m.settle()
	}
}

func TestStories(t *testing.T) {
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			m := s.sim()
			s.play(m)
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(m.log.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), m.log.String()); diff != "" {
				t.Error(diff)
			}
			ends(t, m)
		})
	}
}

// ends checks that a target has its volume, and that nothing else is left.
func ends(t *testing.T, m *sim) {
	t.Helper()
	if m.w.Target.Spec.VolumeName != "pv-1" || m.w.Volume == nil || m.w.Volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || len(m.w.Volume.Annotations) > 0 {
		t.Errorf("the claim doesn't have its volume as it should: %+v", m.w.Volume)
	}
	if m.w.DataVolume != nil || m.w.Temporary != nil || len(m.secrets) != 1 {
		t.Errorf("left are %v, %v, %v", m.w.DataVolume, m.w.Temporary, m.secrets)
	}
	if got := m.w.Target.Annotations; got[cdi.PopulatorProgress] != "100.0%" || got["theirs"] != "stays" || population(m.w.Target) != "" {
		t.Errorf("the claim says %v", got)
	}
}

// TestStopAfterEveryActionAndRestart kills the controller after each action in turn.
func TestStopAfterEveryActionAndRestart(t *testing.T) {
	for name, s := range stories() {
		undisturbed := s.sim()
		s.play(undisturbed)
		for n := 1; n <= undisturbed.acted; n++ {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				m := s.sim()
				m.crashAt = n
				s.play(m)
				if diff := cmp.Diff(undisturbed.snapshot(), m.snapshot()); diff != "" {
					t.Errorf("the story ends differently: %s\n%s", diff, m.log.String())
				}
			})
		}
	}
}

// TestTheTargetIsDeletedAfterEveryAction lets the controller die after each action, and the target go before it is back: nothing is left.
func TestTheTargetIsDeletedAfterEveryAction(t *testing.T) {
	for name, s := range stories() {
		undisturbed := s.sim()
		s.play(undisturbed)
		for n := 1; n <= undisturbed.acted; n++ {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				m := s.sim()
				m.crashAt = n
				for _, l := range s.lines {
					if m.w.Target == nil {
						break
					}
					l.do(m)
					for range 40 {
						if m.reconcile() {
							deleted(m)
							break
						}
						m.kubernetes()
					}
				}
				deleted(m)
				m.settle()
				may(m)
				m.settle()
				if m.w.DataVolume != nil || m.w.Temporary != nil || m.w.Volume != nil || len(m.secrets) > 1 {
					t.Errorf("left are %v, %v, %v, %v\n%s", m.w.DataVolume, m.w.Temporary, m.w.Volume, m.secrets, m.log.String())
				}
			})
		}
	}
}

// TestWhatMayNotBeRemovedIsTriedAgain: there is no target any more whose changes would wake us.
func TestWhatMayNotBeRemovedIsTriedAgain(t *testing.T) {
	m := newSim(nil)
	m.settle()
	deleted(m)
	w := m.look()
	w.Refusal = &action.Refusal{Action: action.Delete{Object: w.DataVolume}, Text: "a policy forbids it"}
	if d := Plan(w, m.now); d.Again != lookAgain {
		t.Errorf("it looks again after %s", d.Again)
	}
}

// TestTheTemporaryDiskIsLostAfterEveryAction lets the controller die after each action, and something of the temporary disk go before it is
// back: the claim gets a whole disk all the same, from the beginning where it must be, and nothing is left.
func TestTheTemporaryDiskIsLostAfterEveryAction(t *testing.T) {
	for what, lost := range map[string]func(*sim){"DataVolume": withoutDataVolume, "claim": withoutClaim, "volume": withoutVolume} {
		for name, s := range stories() {
			undisturbed := s.sim()
			s.play(undisturbed)
			for n := 1; n <= undisturbed.acted; n++ {
				t.Run(fmt.Sprintf("%s/%s/%d", what, name, n), func(t *testing.T) {
					m := s.sim()
					m.crashAt, m.onCrash = n, lost
					s.play(m)
					story{lines: stories()["import"].lines}.play(m)
					if m.w.Target.Spec.VolumeName == "" {
						t.Fatalf("the claim has no volume:\n%s", m.log.String())
					}
					ends(t, m)
				})
			}
		}
	}
}

// TestItIsFilledWhereItsConsumerWillRun: the scheduler has chosen the node for that, and the volume may be on no other.
func TestItIsFilledWhereItsConsumerWillRun(t *testing.T) {
	m := newSim(onLaterClass)
	annotate(cdi.SelectedNode, "node-b")(m)
	m.settle()
	placement, err := v1alpha1.ParsePlacement(m.w.DataVolume.Annotations[v1alpha1.PlacementAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	terms := placement.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchFields[0].Values[0] != "node-b" {
		t.Errorf("its worker may run on %+v", terms)
	}
}

// TestAnUnfilledVolumeIsNeverHandedOver: the temporary claim was replaced, and its DataVolume still says Succeeded, of the claim before.
func TestAnUnfilledVolumeIsNeverHandedOver(t *testing.T) {
	m := newSim(nil)
	m.settle()
	provisioned(m)
	m.disk(func(d *cdiv1.DataVolumeStatus) { d.Phase = cdiv1.Succeeded })
	m.settle()
	if m.begun() || m.w.Target.Spec.VolumeName != "" {
		t.Errorf("it was handed over:\n%s", m.log.String())
	}
}

func (s *sim) begun() bool { return s.w.begun() }

func TestWhatAPersonReads(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sim)
		want   string
	}{
		"the source is in another namespace": {
			func(s *sim) { s.w.Target.Spec.DataSourceRef.Namespace = new("tenant-b") },
			"NotServed: the claim's dataSourceRef names namespace tenant-b: only a source of its own namespace is read",
		},
		"there is no source": {
			func(s *sim) { s.w.Source = nil },
			"SourceMissing: VolumeImportSource debian doesn't exist in namespace tenant-a: create it, and the import goes on by itself",
		},
		"the source is not served": {
			func(s *sim) { s.w.Source.Spec.Source = &cdiv1.ImportSourceType{S3: &cdiv1.DataVolumeSourceS3{}} },
			"NotServed: source s3 is not served by this version of vmdisk: it fills disks from http, blank, pvc and snapshot sources",
		},
		"the source is empty": {
			func(s *sim) { s.w.Source.Spec.Source = nil },
			"NotServed: VolumeImportSource debian has no source: set one, such as http or blank",
		},
		"the import has stages": {
			func(s *sim) { s.w.Source.Spec.TargetClaim = new("web-root") },
			"NotServed: VolumeImportSource debian has targetClaim or checkpoints: imports in several stages are not served by this version of vmdisk",
		},
		"there is no class": {
			func(s *sim) { s.w.Class = nil },
			"StorageClassMissing: StorageClass replicated does not exist: ask the administrator to create it, or make the claim again with another",
		},
		"no class is named": {
			func(s *sim) { s.w.Target.Spec.StorageClassName, s.w.Class = nil, nil },
			"Impossible: the claim names no StorageClass, so nobody makes a volume to fill for it: make it again with spec.storageClassName",
		},
		"the class is static": {
			func(s *sim) { s.w.Class.Provisioner = "kubernetes.io/no-provisioner" },
			"Impossible: StorageClass replicated makes no volumes, its own are static: use another class, or a VMDisk or DataVolume",
		},
		"several access modes": {
			func(s *sim) {
				s.w.Target.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
			},
			"NotServed: the claim asks for several access modes: make it again with the one that is needed",
		},
		"the class's secrets are the claim's": {
			func(s *sim) {
				s.w.Class.Parameters = map[string]string{"csi.storage.k8s.io/node-stage-secret-name": "${pvc.name}-key"}
			},
			"Impossible: StorageClass replicated takes its volumes' secrets by the claim's own name or namespace (parameter csi.storage.k8s.io/node-stage-secret-name), so a volume of it can't be filled elsewhere and handed over: " +
				"use another class, or a VMDisk or DataVolume, whose claims are filled in place",
		},
		"no consumer has come": {
			onLaterClass, "WaitForFirstConsumer: StorageClass replicated makes its volume when the first pod or virtual machine uses it",
		},
		"a Secret is missing": {
			func(s *sim) { withSecret(s); s.secrets = map[string]bool{} },
			"InputMissing: VolumeImportSource debian needs Secret login, which namespace tenant-a doesn't have: create it, and the import goes on by itself",
		},
		"a Secret goes before it was copied": {
			func(s *sim) {
				withSecret(s)
				s.crashAt, s.onCrash = 1, func(s *sim) { delete(s.secrets, "tenant-a/login") }
			},
			"InputMissing: Secret login is gone from namespace tenant-a: create it again, and the import goes on by itself",
		},
		"the disk may not be made": {
			func(s *sim) { s.refuse, s.refuses = "admission webhook says no", creations },
			"Refused: the API server refused the temporary disk: admission webhook says no",
		},
		"a copy may not be made": {
			func(s *sim) {
				withSecret(s)
				s.refuse, s.refuses = "admission webhook says no", func(a action.Action) bool { return strings.Contains(a.String(), "Secret") }
			},
			"Refused: the API server refused the copy of Secret login: admission webhook says no",
		},
		"it stands in line": {
			func(s *sim) {
				s.w.Line.Quotas, s.w.Line.Waiting = []corev1.ResourceQuota{quotaOf("4", "4")}, []Waiting{waitingFor("a", "tenant-b", time.Time{}), waitingFor("b", "tenant-a", time.Time{})}
			},
			`Queued: place 3 of 3 in the line of those that wait to be filled: quota "populators" of the operator's namespace populator has no room for it now (asked persistentvolumeclaims=1, used persistentvolumeclaims=4 of persistentvolumeclaims=4); it goes on by itself`,
		},
		"the content can't be a disk": {
			func(s *sim) {
				s.settle()
				s.disk(func(d *cdiv1.DataVolumeStatus) {
					*d = cdiv1.DataVolumeStatus{Phase: cdiv1.Failed, Conditions: running(corev1.ConditionFalse, "this is a web page")}
				})
			},
			"ImportFailed: this is a web page",
		},
		"the driver has no room": {
			func(s *sim) {
				s.settle()
				s.disk(func(d *cdiv1.DataVolumeStatus) {
					d.Conditions = []cdiv1.DataVolumeCondition{{Type: cdiv1.DataVolumeBound, Status: corev1.ConditionFalse, Message: "PVC populate-t1 Pending: no room"}}
				})
			},
			"ImportScheduled: the temporary claim: PVC populate-t1 Pending: no room",
		},
		"somebody gives it a volume": {
			func(s *sim) {
				s.settle()
				provisioned(s)
				s.w.Target = s.w.Target.DeepCopy()
				s.w.Target.Spec.VolumeName, s.w.Target.Status.Phase = "pv-9", corev1.ClaimBound
			},
			"BoundElsewhere: claim web-root has another volume, pv-9, which somebody else gave it: it is not filled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSim(c.change)
			m.settle()
			if diff := cmp.Diff(c.want, m.w.Target.Annotations["vmdisk.io/population"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}
