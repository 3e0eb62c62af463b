package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// snapshotModule holds the CRDs of snapshots; its version is that of the module of the sidecars.
const snapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v8"

func snapshotKindsFile() string { return filepath.Join(BinDir(), "snapshot-kinds.yaml") }

// snapshotKinds puts the CRDs of VolumeSnapshots, their contents and classes beside the programs that serve them.
func snapshotKinds(ctx context.Context, root string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", snapshotModule)
	cmd.Dir = filepath.Join(root, "lab", "sidecars")
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		return fmt.Errorf("fetch module %s: %w: %s", snapshotModule, err, out)
	}
	var all bytes.Buffer
	for _, kind := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		text, err := os.ReadFile(filepath.Join(module.Dir, "config", "crd", "snapshot.storage.k8s.io_"+kind+".yaml"))
		if err != nil {
			return fmt.Errorf("read the CRD of %s: %w", kind, err)
		}
		all.WriteString("---\n")
		all.Write(text)
	}
	return writeFile(snapshotKindsFile(), all.String(), 0o644)
}
