package sourcetest

import (
	"testing"

	"vmdisk.io/vmdisk/internal/source"
)

func TestMemoryIsASource(t *testing.T) {
	Suite(t, func(_ *testing.T, content []byte) source.Source { return &Memory{Content: content} })
}

func TestMemoryWithoutRangesIsASource(t *testing.T) {
	Suite(t, func(_ *testing.T, content []byte) source.Source { return &Memory{Content: content, Forward: true} })
}
