package populate

import (
	"testing"

	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/pod"
)

func TestScratchIsForImagesAndOnlyWhereItIsAllowed(t *testing.T) {
	blank := func(dv *cdiv1.DataVolume) {
		dv.Spec.Source = &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}}
	}
	allowed := &job.Scratch{Path: pod.ScratchPath, Bytes: 20 << 30}
	for name, test := range map[string]struct {
		change  func(*cdiv1.DataVolume)
		allowed int64
		want    *job.Scratch
	}{
		"an image, and scratch is allowed": {func(*cdiv1.DataVolume) {}, 20 << 30, allowed},
		"an image, and it is not":          {func(*cdiv1.DataVolume) {}, 0, nil},
		"a blank disk":                     {blank, 20 << 30, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSim(dataVolume(test.change), immediateClass)
			m.world.Settings.Scratch = test.allowed
			m.settle()
			m.bind()
			m.settle()
			spec, err := job.ParseSpec(m.world.Worker.Spec.Containers[0].Env[0].Value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, spec.Scratch); diff != "" {
				t.Error(diff)
			}
		})
	}
}
