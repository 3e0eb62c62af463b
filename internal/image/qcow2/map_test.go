package qcow2

import (
	"bytes"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// FuzzMapping maps what can be read: the map must cover the disk, and say of it what reading gives.
func FuzzMapping(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		limits := image.Limits{DiskBytes: 1 << 20}
		disk, err := imagetest.Read(Open, file, limits, limits.DiskBytes)
		if err != nil {
			return
		}
		img, err := Open(bytes.NewReader(file), int64(len(file)), limits)
		if err != nil {
			t.Fatalf("opened a second time: %v", err)
		}
		end := int64(0)
		err = image.Map(img, image.Unknown, func(m image.Mapping) error {
			if m.Start != end || m.Len <= 0 || m.Start+m.Len > int64(len(disk)) || m.Zero == m.Data {
				t.Fatalf("%+v behind %d of %d", m, end, len(disk))
			}
			end += m.Len
			part := disk[m.Start:end]
			if m.Zero && len(bytes.Trim(part, "\x00")) > 0 {
				t.Fatalf("%+v is not zero", m)
			}
			if m.Data && !m.Compressed && !bytes.Equal(part, file[m.Offset:m.Offset+m.Len]) {
				t.Fatalf("%+v is stored elsewhere", m)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("it can be read, and mapping it: %v", err)
		}
		if end != int64(len(disk)) {
			t.Fatalf("the map ends at %d of %d", end, len(disk))
		}
	})
}
