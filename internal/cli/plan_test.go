package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"vmdisk.io/vmdisk/internal/plan/clone"
)

const cases = "../plan/clone/testdata/cases"

func caseFile(id string) string { return filepath.Join(cases, "objects", id+".yaml") }

// images are the flags of Cozystack's golden images.
func images(args ...string) []string {
	return append([]string{"plan", "--image-namespace=cozy-public", "--image-prefix=vm-default-images-"}, args...)
}

// TestPlansEveryCase runs the command on each worked case: what it prints has the expected answer, word by word.
func TestPlansEveryCase(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(cases, "expect.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var expected []struct {
		ID     string                   `json:"id"`
		Args   []string                 `json:"args"`
		CDI    struct{ Refusal string } `json:"cdi"`
		VMDisk map[string]any           `json:"vmdisk"`
	}
	if err := yaml.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	for _, c := range expected {
		t.Run(c.ID, func(t *testing.T) {
			ran := runHere(t, nil, append([]string{"plan", "-o", "json", "-f", caseFile(c.ID)}, c.Args...)...)
			var got map[string]any
			if err := json.Unmarshal([]byte(ran.Stdout), &got); err != nil || ran.Code != exitDone {
				t.Fatalf("%+v: %v", ran, err)
			}
			for _, notCompared := range []string{"disk", "trace", "message"} {
				delete(got, notCompared)
			}
			c.VMDisk["refusal"] = c.CDI.Refusal
			if diff := cmp.Diff(c.VMDisk, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestThePolicyRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		id   string
		flag string
		want []string
	}{
		"on CDI": {"R1-01", "--engine=cdi", []string{"can't be made (RemoteAccess)", "Image ubuntu", "lives in StorageClass replicated", "asked for in local",
			"the clone may never bind", "Use StorageClass replicated", "cloneStrategyOverride: copy"}},
		"by choice":            {"R2-02", "--cross-class-clone=refuse", []string{"can't be made (SnapshotClassMissing)", "Create VolumeSnapshotClass gone", "--cross-class-clone=copy"}},
		"what it leaves alone": {"L1-01a", "--engine=cdi", []string{"csi-clone (RemoteAccessAllowed)", "With --engine=cdi CDI makes the disk"}},
		"otherwise it warns":   {"I-01", "--engine=vmdisk", []string{"csi-clone (PinnedToSourceNodes)", "vmdisk tries a csi-clone on node node-a, and copies the disk if that fails", "it is refused"}},
		"of a copy":            {"R1-01", "--cross-class-clone=copy", []string{"host-assisted copy", "vmdisk copies the disk, which takes longer than a clone"}},
		"of a later clone":     {"I-07", "--source-nodes=node-a", []string{"vmdisk tries a csi-clone once it can"}},
	} {
		t.Run(name, func(t *testing.T) {
			ran := runHere(t, nil, images("-f", caseFile(c.id), c.flag)...)
			for _, words := range c.want {
				if !strings.Contains(ran.Stdout, words) || ran.Code != exitDone {
					t.Errorf("%d: %q is not in\n%s%s", ran.Code, words, ran.Stdout, ran.Stderr)
				}
			}
		})
	}
}

func TestPlanInWords(t *testing.T) {
	const want = `VMDisk tenant-a/vm-disk-d1: host-assisted copy (SnapshotClassMissing)
  The bytes are copied: the StorageProfiles of replicated and local both name VolumeSnapshotClass gone, which does not exist.

Passed over:
  snapshot  SnapshotClassMissing: the StorageProfiles of replicated and local both name VolumeSnapshotClass gone, which does not exist.

At admission (SnapshotClassMissing) it is let in with a warning:
  Image ubuntu (PersistentVolumeClaim cozy-public/vm-default-images-ubuntu) lives in StorageClass replicated, and the disk is asked for in local: vmdisk copies the disk, which takes longer than a clone, because the StorageProfiles of both name VolumeSnapshotClass gone, which does not exist, so CDI would never plan the clone.
With --cross-class-clone=refuse, or --engine=cdi, it is refused:
  Image ubuntu (PersistentVolumeClaim cozy-public/vm-default-images-ubuntu) lives in StorageClass replicated, and the disk is asked for in local: the StorageProfiles of both name VolumeSnapshotClass gone, which does not exist, so CDI would never plan the clone. Create VolumeSnapshotClass gone, or ask the platform administrator to set cloneStrategyOverride: copy in the CDI resource (in Cozystack: in the kubevirt-cdi package), or to run vmdisk with --cross-class-clone=copy.

It rests on:
  source    PersistentVolumeClaim cozy-public/vm-default-images-ubuntu, 20Gi, Block, StorageClass replicated, driver linstor.csi.linbit.com, which nodes hold its data is not known
  class     local, provisioner linstor.csi.linbit.com, allows expansion, WaitForFirstConsumer, volumes can be used from every node, with a layer over the network
  claim     20Gi, Block
  wish      snapshot, by cloneStrategyOverride of CDI cdi

What could be changed:
  - Create VolumeSnapshotClass gone, or name another one in the spec of both StorageProfiles.
`
	if diff := cmp.Diff(ran{exitDone, want, ""}, runHere(t, nil, images("-f", caseFile("R2-01"))...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	existing := runHere(t, nil, images("-f", caseFile("X1-01"))...)
	if !strings.Contains(existing.Stdout, "\nWere it made now: host-assisted copy (TargetNotReachableFromEveryNode)\n") {
		t.Errorf("a disk that exists is not explained:\n%s", existing.Stdout)
	}
}

// TestPlanReadsWhatKubectlPrints: a list, several files, the standard input, objects without a namespace.
func TestPlanReadsWhatKubectlPrints(t *testing.T) {
	const disks = `{"kind":"List","items":[{"kind":"VMDisk","metadata":{"name":"a"},"spec":{"source":{"disk":{"name":"b"}}}},{"kind":"Secret"},` +
		`{"kind":"VMDisk","metadata":{"name":"b","namespace":"other"},"spec":{}}]}`
	ran := runHere(t, []byte(disks), "plan", "-f", "-", "-n", "mine", "-o", "json")
	var plans []clone.Plan
	if err := json.Unmarshal([]byte(ran.Stdout), &plans); err != nil || len(plans) != 2 {
		t.Fatalf("%+v: %v", ran, err)
	}
	got := []string{plans[0].Disk, string(plans[0].Reason), plans[1].Disk, string(plans[1].Reason)}
	if diff := cmp.Diff([]string{"VMDisk mine/a", "NoDefaultStorageClass", "VMDisk other/b", "NotAClone"}, got); diff != "" {
		t.Error(diff)
	}
	one := runHere(t, []byte(disks), "plan", "b", "-f", "-", "-f", caseFile("X3-02"), "-n", "other")
	if diff := cmp.Diff("VMDisk other/b: no clone (NotAClone)\n  The disk is not made from another volume: there is nothing to clone.\n", one.Stdout); diff != "" {
		t.Error(diff)
	}
}

func TestPlanSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  ran
	}{
		"nothing to plan":            {"", []string{}, ran{exitUsage, "", "vmdisk: vmdisk plan takes the NAME of one disk, or -f with the objects: see 'vmdisk plan --help'\n"}},
		"two disks":                  {"", []string{"a", "b"}, ran{exitUsage, "", "vmdisk: vmdisk plan takes the NAME of one disk, or -f with the objects: see 'vmdisk plan --help'\n"}},
		"an engine that there isn't": {"", []string{"-f", "-", "--engine=x"}, ran{exitUsage, "", "vmdisk: --engine is \"x\": set it to vmdisk or cdi\n"}},
		"a policy that there isn't":  {"", []string{"-f", "-", "--cross-class-clone=x"}, ran{exitUsage, "", "vmdisk: --cross-class-clone is \"x\": set it to copy or refuse\n"}},
		"an output that there isn't": {"", []string{"-f", "-", "-o", "x"}, ran{exitUsage, "", "vmdisk: --output is \"x\": set it to text or json\n"}},
		"no disk":                    {"kind: Node", []string{"-f", "-"}, ran{exitFailed, "", "vmdisk: there is neither a VMDisk nor a DataVolume in what was given: add the disk that you ask about\n"}},
		"not that disk":              {"kind: Node", []string{"-f", "-", "a"}, ran{exitFailed, "", "vmdisk: there is neither a VMDisk nor a DataVolume a in namespace default: name another namespace with -n\n"}},
		"a file that isn't there":    {"", []string{"-f", "/nowhere"}, ran{exitFailed, "", "vmdisk: open /nowhere: no such file or directory\n"}},
		"a list of no objects":       {"items: [1]", []string{"-f", "-"}, ran{exitFailed, "", "vmdisk: read -: document 1: item 1 of the list is no object\n"}},
		"a size that is none":        {"kind: Node\n---\nkind: VMDisk\nmetadata: {name: d}\nspec: {storage: much}", []string{"-f", "-"}, ran{exitFailed, "", "vmdisk: read -: document 2: read VMDisk d: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, runHere(t, []byte(c.stdin), append([]string{"plan"}, c.args...)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// forbidding is a cluster without objects, in which a kind may not be listed.
type forbidding struct {
	client.Reader
	kind string
}

func (f forbidding) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	kind := into.(*unstructured.UnstructuredList).GroupVersionKind()
	if kind.Kind == f.kind+"List" {
		return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, "", errors.New("no"))
	}
	return nil
}

// TestWhatMayNotBeRead: a plan does without knowing which nodes have room, and says so. It rests on everything else.
func TestWhatMayNotBeRead(t *testing.T) {
	for kind, want := range map[string]struct{ told, err string }{
		"CSIStorageCapacity": {told: "vmdisk: you may not list CSIStorageCapacities: which nodes have room for the disk is not known\n"},
		"StorageClass":       {err: "list StorageClass objects, which a plan rests on: StorageClassList.storage.k8s.io is forbidden: no: if you may not, ask an administrator for a file with them, and use -f"},
	} {
		t.Run(kind, func(t *testing.T) {
			var told strings.Builder
			o := planOptions{stderr: &told}
			_, err := o.readCluster(t.Context(), forbidding{kind: kind})
			if told.String() != want.told || (err == nil) != (want.err == "") || err != nil && err.Error() != want.err {
				t.Errorf("told %q, error %v", told.String(), err)
			}
		})
	}
}

func TestTheNodesThatAPlanPrefers(t *testing.T) {
	p := clone.Placement{Preferred: []clone.Preference{{Node: "b", Weight: 100}, {Node: "a", Weight: 50}}}
	if got, want := preferred(p), "b, a (room for the volume, or fewer clones of the same source)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := preferred(clone.Placement{}); got != "" {
		t.Errorf("without preferences it says %q", got)
	}
}
