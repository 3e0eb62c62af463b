package qcow2

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// seeds are hostile and strange images, and small ones of each kind that QEMU made (testdata/seeds).
func seeds(f testing.TB) [][]byte {
	list := [][]byte{
		build(),
		build(put64(24, 1<<45), put32(36, 1<<31)),                     // a huge L1 table
		build(put64(builtL2, builtData), put64(builtL2+8, builtData)), // one cluster in several places
		build(put64(builtL1, 0)),                                      // no L2 table
		build(put64(builtL1, builtL1)),                                // the L1 table as an L2 table: a cycle
		build(put64(builtL2+24, builtL2)),                             // an L2 table as data
		build(put64(builtL1, 512), put64(40, 1024), put64(1024, 512)), // tables behind each other
		build(put64(builtL2, 1)),                                      // a zero cluster
		build(put64(builtL2, compressedEntry(builtData, 2)), putBytes(builtData, string(deflated('x')))),
		build(put64(builtL2, compressedEntry(builtLen-3, 2))),             // a compressed cluster that goes on behind the end
		build(put64(builtL2, compressedEntry(1<<50, 2))),                  // one that begins there
		build(put64(72, featureExtendedL2), put32(20, 14)),                // subclusters
		build(put64(48, 1<<60), put32(56, 1<<31), put32(96, 63)),          // refcount nonsense
		build(put64(8, 300), put32(16, 11), putBytes(300, "/etc/passwd")), // a backing file
		build(put64(72, 1<<40), put32(104, extensionFeatures), put32(108, 48), putBytes(112, "\x00\x28teleportation")),
	}
	return append(list, imagetest.Seeds(f)...)
}

// FuzzReading reads an image anywhere and forward. What one way reads the other must read too, and the same.
func FuzzReading(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint16(1), uint16(0))
		f.Add(seed, uint16(100), uint16(1))
	}
	f.Fuzz(func(t *testing.T, content []byte, nearby, memory uint16) {
		if len(content) > image.HeadBytes {
			memory = 0
		}
		imagetest.RequireAgreement(t, content, image.Limits{DiskBytes: 1 << 20}, Open, hostileWays(nearby, memory), excuse)
	})
}

// hostileWays are ways for images that may be anything.
func hostileWays(nearby, memory uint16) imagetest.Ways {
	small := begin(room{nearby: int(nearby), ahead: 512 + int(nearby)})
	limits := image.Limits{MemoryBytes: int64(memory)}
	return imagetest.Ways{
		"forward with ranges":    {Begin: small, Limits: limits, Random: true},
		"forward without ranges": {Begin: small, Limits: limits, MayRefuse: true},
	}
}

// excuse excuses what is only so with as little memory as here.
func excuse(_ []byte, way imagetest.Way, err error) bool {
	return way.Limits.MemoryBytes > 0 && strings.Contains(err.Error(), "are stored in the same place")
}

// anyByte chooses a byte of an image to be changed: of the header, of a table, or any.
func anyByte(r *rand.Rand, content []byte) int {
	places := []int{r.IntN(len(content)), r.IntN(112)}
	h, err := parseHeader(content, image.Limits{})
	if err == nil && h.l1Offset+int64(h.l1Entries)*8 < int64(len(content)) && h.l1Entries > 0 {
		at := h.l1Offset + r.Int64N(int64(h.l1Entries)*8)
		places = append(places, int(at))
		table := int64(binary.BigEndian.Uint64(content[at&^7:])&offsetMask) + r.Int64N(h.clusterSize())
		if table < int64(len(content)) {
			places = append(places, int(table), int(table))
		}
	}
	return places[r.IntN(len(places))]
}
