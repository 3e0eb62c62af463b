package cause

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOfRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Refusal
	}{
		"a storage quota of the claim's namespace is one byte too small": {
			text: `persistentvolumeclaims "web-root" is forbidden: exceeded quota: quota, requested: requests.storage=20Gi, used: requests.storage=0, limited: requests.storage=21474836479`,
			want: Refusal{
				Quota:    &Quota{Name: "quota", Asked: "requests.storage=20Gi", Used: "requests.storage=0", Hard: "requests.storage=21474836479"},
				Sentence: `quota "quota" has no room for the claim: it asks requests.storage=20Gi, used are requests.storage=0 of requests.storage=21474836479; it goes on by itself once the quota is raised or something else is deleted`,
			},
		},
		"two resources of one quota are exceeded": {
			text: `persistentvolumeclaims "b" is forbidden: exceeded quota: q, requested: persistentvolumeclaims=1,requests.storage=2Gi, used: persistentvolumeclaims=1,requests.storage=2Gi, limited: persistentvolumeclaims=1,requests.storage=3Gi`,
			want: Refusal{
				Quota:    &Quota{Name: "q", Asked: "persistentvolumeclaims=1,requests.storage=2Gi", Used: "persistentvolumeclaims=1,requests.storage=2Gi", Hard: "persistentvolumeclaims=1,requests.storage=3Gi"},
				Sentence: `quota "q" has no room for the claim: it asks persistentvolumeclaims=1,requests.storage=2Gi, used are persistentvolumeclaims=1,requests.storage=2Gi of persistentvolumeclaims=1,requests.storage=3Gi; it goes on by itself once the quota is raised or something else is deleted`,
			},
		},
		"a quota on memory wants a limit that the pod lacks": {
			text: `pods "importer-x" is forbidden: failed quota: compute: must specify limits.memory for: importer`,
			want: Refusal{Sentence: `quota "compute" wants every pod to say its limits.memory for: importer, and the worker doesn't: set podResourceRequirements in the CDI object's config`},
		},
		"a policy of the cluster refuses": {
			text: `admission webhook "policy" denied the request: no`,
			want: Refusal{Sentence: `the API server refused the claim: admission webhook "policy" denied the request: no`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, OfRefusal("the claim", c.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestComplaint(t *testing.T) {
	for name, c := range map[string]struct{ reason, message, want string }{
		"a provisioner repeats its driver's status": {
			"ProvisioningFailed", `failed to provision volume with StorageClass "local": rpc error: code = ResourceExhausted desc = no room on node-a`,
			"the storage driver could not make the volume: no room on node-a",
		},
		"a ConfigMap is missing": {
			"FailedMount", `MountVolume.SetUp failed for volume "ca" : configmap "images-ca" not found`,
			`configmap "images-ca" not found in the disk's namespace: create it, and the import goes on by itself`,
		},
		"a node can't attach": {
			"FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) vm`,
			`the volume could not be attached to the worker's node: Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) vm`,
		},
		"a long story is cut behind a word":              {"Odd", strings.Repeat("word ", 100), strings.Repeat("word ", 80) + "…"},
		"a long word is cut, and not within a character": {"Odd", "x" + strings.Repeat("é", 300), "x" + strings.Repeat("é", 199) + "…"},
		"so it is behind an early blank":                 {"Odd", "short " + strings.Repeat("x", 500), "short " + strings.Repeat("x", 394) + "…"},
		"an unknown component speaks":                    {"Odd", "some\n  text", "some text"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Complaint(c.reason, c.message); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestPassing(t *testing.T) {
	for message, want := range map[string]bool{
		`error processing PVC a/disk: persistentvolumeclaims "disk" is forbidden: User "system:node:node-b" cannot get resource "persistentvolumeclaims": no relationship found between node 'node-b' and this object`: true,
		`Operation cannot be fulfilled on persistentvolumeclaims "disk": the object has been modified; please apply your changes`:                                                                                      true,
		`MountVolume.SetUp failed for volume "input-0" : secret "login" not found`:                                                                                                                                     false,
	} {
		if got := Passing(message); got != want {
			t.Errorf("%v for %s", got, message)
		}
	}
}
