package vhdx

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
)

func TestDetailsAreReadAlsoOfWhatIsRefused(t *testing.T) {
	const dynamic = "dynamic, blocks of 1048576 bytes, sectors of 512 bytes"
	tests := map[string]struct {
		head []byte
		want image.Details
	}{
		"a dynamic disk":            {build(), image.Details{Variant: dynamic}},
		"a fixed disk":              {build(put32(builtItems+4, hasFixedBlocks)), image.Details{Variant: "fixed, blocks of 1048576 bytes, sectors of 512 bytes"}},
		"a parent":                  {build(withParent), image.Details{Variant: dynamic, References: []image.Reference{{Kind: "parent", Name: `..\base.vhdx`}}}},
		"a parent without a name":   {build(put32(builtItems+4, hasParent)), image.Details{Variant: dynamic, References: []image.Reference{{Kind: "parent"}}}},
		"metadata that isn't there": {build()[:builtMetadata], image.Details{}},
		"only a beginning":          {build()[:100], image.Details{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Details(test.head)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
