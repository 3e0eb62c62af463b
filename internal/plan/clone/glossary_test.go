package clone

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// entry is one line of the glossary.
type entry struct {
	reason        Reason
	with, meaning string
}

// glossary is every reason, in the order in which they are looked for, as docs/clone.md has to have it.
func glossary() []entry {
	const none, reject, wait, copied, advanced = "none", "reject", "wait", "host-assisted", "csi-clone, snapshot"
	return []entry{
		{DiskExists, none, "the disk's DataVolume or claim exists already, and is never made again"},
		{NotAClone, none, "the disk is filled from a URL, an upload or with nothing: there is nothing to clone"},
		{RemoteAccess, reject, "the policy refuses the disk: its volume could not be used from every node, and a clone may never bind"},
		{SnapshotClassMissing, reject + ", " + copied, "both StorageProfiles name one VolumeSnapshotClass, and it does not exist. It rejects the disk only where the policy refuses"},
		{NoDefaultStorageClass, wait, "the disk names no StorageClass, and no class is the default"},
		{TargetStorageClassNotFound, wait, "the StorageClass that the disk names does not exist"},
		{InvalidStorageClassParams, reject, "linstor-csi can't read the class's parameters, and so makes no volume of it by any strategy"},
		{TargetSmallerThanSource, reject, "the disk that is asked for is smaller than its source"},
		{StorageProfileIncomplete, wait, "the class's StorageProfile doesn't exist, or doesn't say which modes its volumes have"},
		{ClaimNotValid, reject, "no claim can be made of what the disk's spec says"},
		{SourceNotFound, wait, "the source doesn't exist"},
		{SourceVolumeMissing, wait, "the source's claim is bound, and its volume is gone"},
		{SourceVolumeMismatch, wait, "the source's volume says that it belongs to another claim"},
		{SourceNotReady, wait, "the source is not bound, or not filled yet"},
		{SourceInUse, wait, "a pod may write to the source"},
		{WaitForFirstConsumer, wait, "the class makes volumes for their first consumer, and none has come. This is a state to rest in"},
		{CopyRequested, copied, "the DataVolume, the CDI resource or the class's StorageProfile asks for a copy, or for something that is no strategy"},
		{DriverMismatch, copied, "the source's volume is another driver's than the class's, or its driver is not known"},
		{NoCSIDriver, copied, "the class's provisioner is no CSI driver of this cluster"},
		{SourceNotCSI, copied, "the source's volume was made without a CSI driver"},
		{VolumeModeMismatch, copied, "one volume is a block device, and the other has a filesystem"},
		{NoVolumeExpansion, copied, "a clone is as large as its source, and the class does not let it grow to the disk's size"},
		{NoVolumeSnapshotClass, copied, "no VolumeSnapshotClass serves: there is none of the driver, or the one that both profiles name is another driver's"},
		{QuotaExceeded, wait + ", " + copied, "a quota has no room: for a VolumeSnapshot in the source's namespace, so that the disk is copied; or for the disk's claim, or for the claim that stands for it in the source's namespace while it is made, so that the disk waits"},
		{ConflictingParameters, copied, "two spellings of one LINSTOR parameter disagree, and linstor-csi takes either at random"},
		{UnreplicatedTarget, copied, "LINSTOR would clone onto each node that holds the source, and without DRBD or NVMe these would be independent copies"},
		{TargetNotReachable, copied, "the clone could be used only from where the source's data is, and that is not known, or not known to be where its consumer runs"},
		{ConsumerNodeLacksData, copied, "the clone could not be used from its consumer's node"},
		{RemoteAccessAllowed, advanced, "the clone can be used from every node"},
		{SameDriver, advanced, "one driver, which says nothing of nodes, has both volumes"},
		{PinnedToSourceNodes, advanced, "the clone can be used from the nodes that are listed, and what mounts it is kept there"},
	}
}

// TestEveryReasonIsInTheGlossary: no plan of a case has a reason that the glossary doesn't explain, and none is explained twice.
func TestEveryReasonIsInTheGlossary(t *testing.T) {
	known := map[Reason]bool{}
	for _, e := range glossary() {
		if known[e.reason] {
			t.Errorf("%s is explained twice", e.reason)
		}
		known[e.reason] = true
	}
	for _, e := range examples(t) {
		got := e.plan(t, e.objects(t))
		reasons := []Reason{got.Reason}
		for _, p := range got.Trace {
			reasons = append(reasons, p.Reason)
		}
		if i := slices.IndexFunc(reasons, func(r Reason) bool { return !known[r] }); i >= 0 {
			t.Errorf("%s: the glossary lacks %s", e.ID, reasons[i])
		}
	}
}

func TestTheDocsHaveTheGlossary(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/clone.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range glossary() {
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", e.reason, e.with, e.meaning); !strings.Contains(string(docs), row) {
			t.Errorf("docs/clone.md lacks the row\n%s", row)
		}
	}
}
