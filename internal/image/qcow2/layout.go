package qcow2

import (
	"encoding/binary"
	"io"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	// leastClusterBits are QEMU's own default, 64 KiB. Only a disk of more than manyClusters has larger ones, so that few bytes
	// have to be remembered of it.
	leastClusterBits = 16
	manyClusters     = 1 << 24

	// storedUnit is what a packed cluster's size is rounded up to, in bytes. So it fits two bytes with clusters of any size, and no
	// cluster of the image has parts of more than 65535 others, which is what a refcount of 16 bits can count.
	storedUnit = 64

	refcountBytes = 2
	writtenHeader = 112 // bytes: all known fields, up to the compression type and its padding

	flagCopied = 1 << 63 // of L1 entries and standard L2 entries: the refcount is one
)

// storedSize says what is stored of a cluster of the disk: the number of storedUnits, or one of the constants.
type storedSize uint16

const (
	isHole  storedSize = 0
	isPlain storedSize = 0xffff
)

// layout is the places in an image that is written. What it says of the data is only known when all of them were packed.
type layout struct {
	header
	tableClusters int64                  // of the refcount table
	numbers       []int64                // of the L2 tables, ascending
	sizes         map[int64][]storedSize // of the clusters that an L2 table maps, by its number
	end           int64                  // of the data, in bytes
}

func newLayout(disk image.Image) (layout, error) {
	size := (disk.Size() + image.SectorSize - 1) / image.SectorSize * image.SectorSize
	l := layout{header: header{clusterBits: leastClusterBits, size: size}, sizes: map[int64][]storedSize{}}
	for l.clusters(size) > manyClusters && l.clusterBits < maxClusterBits {
		l.clusterBits++
	}
	l.l1Entries = int((size + l.l2Covers() - 1) / l.l2Covers())
	used := int64(0)
	err := l.ranges(disk, func(first, count int64) error {
		used += count
		for n := first / l.l2Entries(); n <= (first+count-1)/l.l2Entries(); n++ {
			if len(l.numbers) == 0 || n > l.numbers[len(l.numbers)-1] {
				l.numbers = append(l.numbers, n)
			}
		}
		return nil
	})
	// At most, every cluster is stored as it is, and each of them behind a gap.
	most := l.refcountBlocks(1 + l.clusters(int64(l.l1Entries)*8) + int64(len(l.numbers)) + 2*used)
	l.tableClusters = l.clusters((most + 1) * 8) // one more, as the table itself is counted, too
	l.l1Offset = (1 + l.tableClusters) << l.clusterBits
	return l, err
}

// clusters is how many clusters n bytes take.
func (l *layout) clusters(n int64) int64 { return (n + l.clusterSize() - 1) >> l.clusterBits }

// ranges calls f with the clusters of the disk that may hold data, in its order.
func (l *layout) ranges(disk image.Image, f func(first, count int64) error) error {
	done := int64(0) // clusters
	for offset := int64(0); ; {
		x, err := disk.Next(offset)
		if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
			return nil
		}
		if err != nil {
			return err
		}
		offset = x.Start + x.Len
		if first, end := max(done, x.Start>>l.clusterBits), l.clusters(offset); !x.Zero && first < end {
			if err := f(first, end-first); err != nil {
				return err
			}
			done = end
		}
	}
}

// l2TableAt is where the i-th L2 table lies.
func (l *layout) l2TableAt(i int) int64 {
	return l.l1Offset + (l.clusters(int64(l.l1Entries)*8)+int64(i))<<l.clusterBits
}

// front is how many bytes come before the data.
func (l *layout) front() int64 { return l.l2TableAt(len(l.numbers)) }

// place is where a cluster is stored if the one before it ends at end: a plain one on a boundary.
func (l *layout) place(end int64, s storedSize) int64 {
	if s == isPlain {
		return l.clusters(end) << l.clusterBits
	}
	return end
}

// bytes is how many bytes are stored.
func (l *layout) bytes(s storedSize) int64 {
	if s == isPlain {
		return l.clusterSize()
	}
	return int64(s) * storedUnit
}

// sizeOf is where the size of a cluster of the disk is kept.
func (l *layout) sizeOf(cluster int64) *storedSize {
	number := cluster / l.l2Entries()
	if l.sizes[number] == nil {
		l.sizes[number] = make([]storedSize, l.l2Entries())
	}
	return &l.sizes[number][cluster%l.l2Entries()]
}

// remember takes note of a size.
func (l *layout) remember(cluster int64, s storedSize) error {
	if _, ok := slices.BinarySearch(l.numbers, cluster/l.l2Entries()); !ok {
		return ErrChanged
	}
	*l.sizeOf(cluster) = s
	return nil
}

// compare compares a size with the one that was remembered.
func (l *layout) compare(cluster int64, s storedSize) error {
	if *l.sizeOf(cluster) != s {
		return ErrChanged
	}
	return nil
}

// dataEnd is where the refcounts begin.
func (l *layout) dataEnd() int64 { return l.clusters(l.end) << l.clusterBits }

// length is the image's, in bytes.
func (l *layout) length() int64 {
	return l.dataEnd() + l.refcountBlocks(l.clusters(l.end))<<l.clusterBits
}

// refcountBlocks is how many clusters of refcounts it takes to count n other clusters and themselves.
func (l *layout) refcountBlocks(n int64) int64 {
	counts := l.clusterSize() / refcountBytes
	return (n + counts - 2) / (counts - 1)
}

// writeFront writes what comes before the data.
func (l *layout) writeFront(out io.Writer) error {
	front := make([]byte, l.l2TableAt(0))
	l.putHeader(front)
	for i := range l.refcountBlocks(l.clusters(l.end)) {
		binary.BigEndian.PutUint64(front[l.clusterSize()+i*8:], uint64(l.dataEnd()+i<<l.clusterBits))
	}
	for i, number := range l.numbers {
		binary.BigEndian.PutUint64(front[l.l1Offset+number*8:], uint64(l.l2TableAt(i))|flagCopied)
	}
	if _, err := out.Write(front); err != nil {
		return err
	}
	table, at := make([]byte, l.clusterSize()), l.front()
	for _, number := range l.numbers {
		clear(table)
		for i, s := range l.sizes[number] {
			if s != isHole {
				at = l.place(at, s)
				binary.BigEndian.PutUint64(table[i*8:], l.entry(at, s))
				at += l.bytes(s)
			}
		}
		if _, err := out.Write(table); err != nil {
			return err
		}
	}
	return nil
}

// putHeader writes the header ("Header").
func (l *layout) putHeader(b []byte) {
	be := binary.BigEndian
	be.PutUint32(b, magic)
	be.PutUint32(b[4:], 3)
	be.PutUint32(b[20:], uint32(l.clusterBits))
	be.PutUint64(b[24:], uint64(l.size))
	be.PutUint32(b[36:], uint32(l.l1Entries))
	be.PutUint64(b[40:], uint64(l.l1Offset))
	be.PutUint64(b[48:], uint64(l.clusterSize())) // the refcount table
	be.PutUint32(b[56:], uint32(l.tableClusters))
	be.PutUint64(b[72:], featureCompression)
	be.PutUint32(b[96:], 4) // refcounts of 2^4 bits
	be.PutUint32(b[100:], writtenHeader)
	b[v3HeaderLen] = compressionZstd
}

// entry is the L2 entry of a cluster that is stored at offset ("Cluster mapping").
func (l *layout) entry(offset int64, s storedSize) uint64 {
	if s == isPlain {
		return uint64(offset) | flagCopied
	}
	further := (offset%sector + l.bytes(s) - 1) / sector // sectors behind the first
	return uint64(offset) | uint64(further)<<l.compressedOffsetBits() | flagCompressed
}

// writeRefcounts counts for each cluster of the image what is stored in it.
func (l *layout) writeRefcounts(out io.Writer) error {
	block := make([]byte, l.clusterSize())
	counts := int64(len(block) / refcountBytes)
	first := int64(0) // that the block counts
	count := func(from, end int64) error {
		for c := from >> l.clusterBits; c < l.clusters(end); c++ {
			if c >= first+counts {
				if _, err := out.Write(block); err != nil {
					return err
				}
				clear(block)
				first += counts
			}
			entry := block[(c-first)*refcountBytes:]
			binary.BigEndian.PutUint16(entry, binary.BigEndian.Uint16(entry)+1)
		}
		return nil
	}
	if err := count(0, l.front()); err != nil {
		return err
	}
	at := l.front()
	for _, number := range l.numbers {
		for _, s := range l.sizes[number] {
			if s == isHole {
				continue
			}
			at = l.place(at, s)
			if err := count(at, at+l.bytes(s)); err != nil {
				return err
			}
			at += l.bytes(s)
		}
	}
	if err := count(l.dataEnd(), l.length()); err != nil {
		return err
	}
	_, err := out.Write(block)
	return err
}
