//go:build e2e

package e2e

import (
	"testing"

	"google.golang.org/grpc/codes"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/csi"
)

// What a disk waits for is named on the disk, and once it is there the disk goes on by itself.
func TestWaiting(t *testing.T) {
	t.Parallel()
	t.Run("for a class that doesn't exist", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		class := n.name + "-later"
		n.create(newDisk(class, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}))
		n.says("disk", told, class)
		dv := get(n, "disk", &cdiv1.DataVolume{})
		if c := condition(dv, cdiv1.DataVolumeBound); c.Reason != "ErrClaimNotValid" {
			t.Errorf("the DataVolume's Bound is %+v, want the reason ErrClaimNotValid", c)
		}
		n.makeClass(class, nil)
		n.becomesReady("disk")
	})
	t.Run("for a ConfigMap that doesn't exist", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: secureURL(qcow2File), CertConfigMap: authorityName}))
		n.says("disk", told, `configmap "`+authorityName+`" not found`)
		n.trustServer()
		n.becomesReady("disk")
		n.holds("disk", diskBytes, reference(t), -1)
	})
	t.Run("for a Secret that doesn't exist", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(newDisk(filesLater, &v1alpha1.HTTPSource{URL: plainURL("auth/" + qcow2File), SecretRef: credentialsName}))
		n.says("disk", told, `secret "`+credentialsName+`" not found`)
		n.create(credentials(password))
		n.becomesReady("disk")
	})
	t.Run("for storage that has no room", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		const full = "the pool is full"
		fault := csi.Fault{Method: "CreateVolume", PVC: n.name + "/*", Code: codes.ResourceExhausted, Message: full}
		n.faults(fault)
		n.create(newDisk(blockNow, nil))
		n.says("disk", told, "the storage driver could not make the volume", full, "DataVolume disk is Pending")
		n.faults()
		n.becomesReady("disk")
	})
	t.Run("for trust in a certificate", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: secureURL(qcow2File)}))
		n.says("disk", told, "unknown authority", "certConfigMap")
	})
}
