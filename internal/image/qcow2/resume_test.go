package qcow2

import (
	"bytes"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// requireResume stops passes and starts others at their marks.
func requireResume(t *testing.T, content, disk []byte) {
	ways := waysForward()
	for _, name := range []string{"forward with ranges", "forward with a tiny window and ranges"} {
		got := imagetest.RequireResume(t, ways[name], content, disk, 5, besides(t, content))
		if len(got.Marks) < got.Pieces/8 || got.Pieces > 3 && got.Last() < int64(len(content))/3 {
			t.Errorf("%s: %d marks up to %d, %d pieces in an image of %d bytes", name, len(got.Marks), got.Last(), got.Pieces, len(content))
		}
	}
	// Tables are read again and again with so little memory.
	imagetest.RequireResume(t, ways["forward with little memory and ranges"], content, disk, 2, func(int64) int64 { return 1 << 40 })
}

// besides answers how many bytes a pass over an image may read besides what lies behind its start: its tables, with the
// gaps between them that are not worth a second request, and what tables behind the start map before it.
func besides(t *testing.T, content []byte) func(start int64) int64 {
	h, err := parseHeader(content[:min(len(content), image.HeadBytes)], image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(bytes.NewReader(content), int64(len(content)), image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return func(start int64) int64 {
		more := int64(h.l1Entries) * 8
		l2 := v.(*view).tables
		for i := range l2.count() {
			number, offset := l2.number(i), l2.offset(i)
			more += h.clusterSize() + maxGap
			if offset < start || h.snapshots {
				continue
			}
			err := h.parseL2(content[offset:][:h.clusterSize()], number*h.l2Covers(), func(u unit) error {
				if u.offset < start {
					more += int64(u.stored)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return more
	}
}

// TestGoesOnInStrangeImages has images in which a later table maps what lies before it, or what an earlier one maps too.
func TestGoesOnInStrangeImages(t *testing.T) {
	const (
		two   = 2 * builtDisk
		table = 5 * 512 // a second L2 table, behind data
		data  = 6 * 512
	)
	noise := func(b []byte) {
		for i := builtData; i < table; i++ {
			b[i] = byte(i * 31 >> 3)
		}
		copy(b[data:], b[builtData:table])
	}
	long := func(change ...func([]byte)) []byte {
		b := append(build(put64(24, two), put32(36, 2), put64(builtL1+8, table)), make([]byte, 6*512)...)
		noise(b)
		for _, c := range change {
			c(b)
		}
		return b
	}
	for name, content := range map[string][]byte{
		"data before the table that maps it":      long(put64(table, builtData+512), put64(table+8, data)),
		"one cluster by two tables":               long(put64(table, builtData), put64(table+8, data)),
		"one cluster by two tables, then another": long(put64(table, builtData), put64(table+8, builtData+512), put64(builtL2, data+512)),
		"one cluster twice by one table":          long(put64(builtL2, builtData), put64(table, data), put64(table+8, data)),
		"tables before the L1 table":              long(put64(40, 7*512), put64(7*512, builtL2), put64(7*512+8, table), put64(table, builtData+512), put64(table+8, 8*512)),
		"all tables last":                         long(func(b []byte) { clear(b[7*512 : 8*512]) }, put64(builtL1, table), put64(builtL1+8, 7*512), put64(table, builtData), put64(7*512, builtData+512), put64(7*512+8, 8*512)),
	} {
		t.Run(name, func(t *testing.T) {
			disk, err := imagetest.Read(Open, content, image.Limits{}, two)
			if err != nil {
				t.Fatal(err)
			}
			for _, way := range []string{"forward with a tiny window and ranges", "forward with no memory and ranges"} {
				got := imagetest.RequireResume(t, waysForward()[way], content, disk, 50, besides(t, content))
				if len(got.Marks) == 0 {
					t.Errorf("%s: no marks", way)
				}
			}
		})
	}
}

// TestMarksWaitForTablesThatWereReadOutOfTurn has so much data before the second table that the table is read out of turn.
// What it maps was handed over then, and another pass, which can't know that, would read all of it again.
func TestMarksWaitForTablesThatWereReadOutOfTurn(t *testing.T) {
	const stride, second = 4096, builtData + 64*4096
	content := append(build(put64(24, 2*builtDisk), put32(36, 2), put64(builtL1+8, second)), make([]byte, second+64*512)...)
	for i := range 64 {
		at := builtData + i*stride
		put64(builtL2+8*i, uint64(at))(content)
		put64(second+8*i, uint64(at+2048))(content)
		content[at], content[at+2048] = byte(i), byte(i)|0x80
	}
	for i := 60; i < 64; i++ { // and some behind it
		put64(second+8*i, uint64(second+(i-59)*512))(content)
	}
	disk, err := imagetest.Read(Open, content, image.Limits{}, 2*builtDisk)
	if err != nil {
		t.Fatal(err)
	}
	got := imagetest.RequireResume(t, waysForward()["forward with little memory and ranges"], content, disk, 50, besides(t, content))
	early := 0
	for _, mark := range got.Marks {
		switch {
		case mark < second/2:
			early++
		case mark <= second:
			t.Errorf("there is a mark at %d", mark)
		}
	}
	if early < 5 || got.Last() <= second {
		t.Errorf("%d marks were early, and the last is at %d", early, got.Last())
	}
}
