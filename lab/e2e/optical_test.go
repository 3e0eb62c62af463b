//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// An installation medium becomes an optical disk, byte for byte, and a machine is told to show it as one.
func TestOpticalDisk(t *testing.T) {
	t.Parallel()
	for _, class := range []string{blockNow, filesLater} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			path := filepath.Join(imagesDir(), opticalFile)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			size := int64(64) << 20 // a filesystem for a few hundred KiB would be too small to be one
			disk := newDisk(class, &v1alpha1.HTTPSource{URL: plainURL(opticalFile), Checksum: "sha256:" + imageSum(t, opticalFile)})
			disk.Spec.Optical = true
			disk.Spec.Storage = resource.NewQuantity(size, resource.BinarySI)
			n.create(disk)
			n.becomesReady("disk")
			if got := get(n, "disk", &cdiv1.DataVolume{}).Annotations[v1alpha1.OpticalAnnotation]; got != "true" {
				t.Errorf("the DataVolume says %q of being optical", got)
			}
			sum := sha256.Sum256(append(content, make([]byte, size-int64(len(content)))...))
			n.holds("disk", size, hex.EncodeToString(sum[:]), -1)
		})
	}
}
