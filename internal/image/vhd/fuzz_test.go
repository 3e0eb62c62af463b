package vhd

import (
	"bytes"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// FuzzReading reads a dynamic image anywhere and forward. What one way reads the other must read too, and the same. Where
// sealed, the checksums are made right first.
func FuzzReading(f *testing.F) {
	for _, seed := range [][]byte{
		build(),
		tableLast(build()),
		build(put32(builtHeader+28, 1<<32-1)),
		build(put64(48, 1<<34), put32(builtHeader+28, 1<<32-1)),
		build(put32(60, typeDifferencing)),
		build(put32(builtTable+4, builtThird/sector)),
		build(put32(builtTable, 1<<32-2)),
		build(put64(16, headerLen)),
		build(putBytes(28, "vpc "), putBytes(56, "\x00\x01\x02\x03")),
	} {
		f.Add(seed, true)
	}
	for _, seed := range imagetest.Seeds(f) {
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, content []byte, sealed bool) {
		content = append([]byte(footerCookie), content[min(len(content), len(footerCookie)):]...)
		if sealed && len(content) >= footerLen {
			seal(content)
		}
		imagetest.RequireAgreement(t, content, image.Limits{DiskBytes: 1 << 20}, open, hostileWays(), excuseNone)
	})
}

// FuzzUnmarked reads an image that begins as a raw disk anywhere and forward, by a stream that comes in small parts. What is
// fuzzed is its end. A footer is made to fit first: its checksum, and where fit the size.
func FuzzUnmarked(f *testing.F) {
	disk := bytes.Repeat([]byte("disk"), 1024)
	for step, end := range map[uint16][]byte{
		512: disk,
		1:   disk[:1000],
		7:   buildFixed(disk),
		511: buildFixed(disk)[:len(disk)+oldFooterLen],
		513: buildFixed(disk, putBytes(28, "vpc "), putBytes(56, "\x00\x01\x02\x03")),
		99:  buildFixed(disk, put32(60, typeDifferencing)),
		1e3: buildFixed(disk[:3000]),
	} {
		f.Add(end, step, true)
	}
	f.Fuzz(func(t *testing.T, end []byte, step uint16, fit bool) {
		if step == 0 || len(end) > 64<<10 {
			return
		}
		content := append(make([]byte, image.HeadBytes), end...)
		if last := lastSector(int64(len(content))); len(content)-int(last) >= oldFooterLen {
			if fit {
				put64(48, uint64(last))(content[last:])
			}
			sealFooter(content[last:])
		}
		ways := imagetest.Ways{}
		for name, b := range map[string]beginning{"forward": {}, "of unknown length": {unknown: true}, "with ranges": {random: true}} {
			b.step = int(step)
			ways[name] = imagetest.Way{Begin: b.begin, Random: true, MayRefuse: !b.random}
		}
		imagetest.RequireAgreement(t, content, image.Limits{DiskBytes: 1 << 20}, open, ways, excuseNone)
	})
}

// hostileWays are ways for images that may be anything. A table that lies far behind a stream of unknown length can't be
// told from one behind its end.
func hostileWays() imagetest.Ways {
	ways := waysForward()
	unknown := ways["forward with an unknown length"]
	unknown.MayRefuse = true
	ways["forward with an unknown length"] = unknown
	return ways
}
