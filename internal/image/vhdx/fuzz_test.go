package vhdx

import (
	"math/rand/v2"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// tables are the parts of an image that say something, so that a fuzzer need not find them in the MiB around.
type tables struct {
	headers, regions []byte // from the first of both
	metadata, items  []byte // the metadata table and what lies behind it
	bat              []byte
	length           uint32 // of the image in bytes
}

const (
	fuzzPart = 1 << 10 // bytes of each part at most
	fuzzLen  = 6 * mib // bytes of an image at most
)

// image makes the image that has these tables where build has them.
func (p tables) image(sealed bool) []byte {
	b := make([]byte, max(builtItems+fuzzPart, min(p.length, fuzzLen)))
	for at := builtData; at < len(b); at += 4 << 10 { // a loop over each byte would take a fuzzer's time
		b[at] = byte(at>>12) | 1
	}
	copy(b, fileSignature)
	for at, part := range map[int][]byte{firstHeader: p.headers, secondHeader: p.headers, firstRegion: p.regions, secondRegion: p.regions, builtMetadata: p.metadata, builtItems: p.items, builtBAT: p.bat} {
		if at < len(b) {
			copy(b[at:], part[:min(len(part), fuzzPart)])
		}
	}
	if sealed {
		seal(b)
	}
	return b
}

// tablesOf takes the tables from an image.
func tablesOf(b []byte) tables {
	s, err := parseSection(b[:sectionLen])
	if err != nil {
		panic(err)
	}
	part := func(at int64, n int) []byte { return b[at : at+int64(n)] }
	return tables{part(secondHeader, 80), part(firstRegion, 80), part(s.metadata.offset, 224), part(s.metadata.offset+metadataLen, 80), part(s.bat.offset, 64), uint32(len(b))}
}

// FuzzReading reads an image anywhere and forward. What one way reads the other must read too, and the same.
func FuzzReading(f *testing.F) {
	for _, seed := range [][]byte{
		build(),
		build(withParent),
		build(put64(builtBAT, 5*mib|statePresent)),
		build(put64(builtItems+16, maxDisk), put32(builtItems, maxBlock)),
		build(put32(firstRegion+40, 1<<32-mib)),
		tablesLast(build()),
	} {
		p := tablesOf(seed)
		f.Add(p.headers, p.regions, p.metadata, p.items, p.bat, p.length, true, uint32(0))
	}
	for _, options := range []string{"block_size=1M", "block_size=2M", "block_size=1M,subformat=fixed"} {
		b, _ := imagetest.Image(f, "vhdx", imagetest.Recipe{Options: options, Empty: true, Steps: []string{"io write -P 5 3M 1k"}})
		p := tablesOf(b)
		f.Add(p.headers, p.regions, p.metadata, p.items, p.bat, p.length, true, uint32(1<<20))
	}
	f.Fuzz(func(t *testing.T, headers, regions, metadata, items, bat []byte, length uint32, sealed bool, memory uint32) {
		content := tables{headers, regions, metadata, items, bat, length}.image(sealed)
		imagetest.RequireAgreement(t, content, image.Limits{DiskBytes: 4 << 20}, Open, hostileWays(int64(memory)), excuseNone)
	})
}

// hostileWays are ways for images that may be anything.
func hostileWays(memory int64) imagetest.Ways {
	limits := image.Limits{MemoryBytes: memory}
	return imagetest.Ways{
		"forward with ranges":    {Begin: beginWith(image.HeadBytes), Limits: limits, Random: true},
		"forward without ranges": {Begin: beginWith(MaxHeadBytes), Limits: limits, MayRefuse: true},
	}
}

// excuseNone has no excuse: what one way reads all must read.
func excuseNone([]byte, imagetest.Way, error) bool { return false }

// anyByte chooses a byte of an image to be changed: of the headers, regions, metadata or the block allocation table.
func anyByte(r *rand.Rand, b []byte) int {
	s, err := parseSection(b[:sectionLen])
	if err != nil { // by an earlier change
		s = section{metadata: area{offset: builtMetadata}, bat: area{offset: builtBAT}}
	}
	places := []area{{secondHeader + 8, 72}, {firstRegion, 80}, {s.metadata.offset, 224}, {s.metadata.offset + metadataLen, 48}, {s.bat.offset, 80}, {s.bat.offset, 80}}
	p := places[r.IntN(len(places))]
	return int(min(p.offset+r.Int64N(p.length), int64(len(b)-1)))
}
