package codec

import (
	"bytes"
	reference "compress/zlib"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zlib"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/stream/inflate"
)

// change is b with one byte changed.
func change(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[(at+len(b))%len(b)] ^= 1
	return b
}

func TestAZlibStreamIsWholeOrAnError(t *testing.T) {
	whole := text(64 << 10)
	var flushed bytes.Buffer
	w := zlib.NewWriter(&flushed)
	for _, part := range [][]byte{whole[:5], whole[5:], nil, nil} { // a flush is an empty stored block
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	good := zlibbed(t, 6, whole)
	tests := map[string]struct {
		stored []byte
		want   error
	}{
		"compressed":                    {good, nil},
		"stored":                        {zlibbed(t, 0, whole), nil},
		"with something behind it":      {append(bytes.Clone(good), "more"...), nil},
		"with empty blocks at its end":  {flushed.Bytes(), nil},
		"a wrong checksum":              {change(good, -1), errChecksum},
		"other bytes":                   {change(zlibbed(t, 0, whole), 5000), errChecksum},
		"no checksum":                   {good[:len(good)-4], inflate.ErrShort},
		"half a checksum":               {good[:len(good)-2], inflate.ErrShort},
		"a byte more":                   {zlibbed(t, 6, text(64<<10+1)), inflate.ErrLong},
		"a byte more, stored":           {zlibbed(t, 0, text(64<<10+1)), inflate.ErrLong},
		"a repetition that goes on":     {zlibbed(t, 9, append(bytes.Clone(whole), text(200)...)), inflate.ErrLong},
		"a byte less":                   {zlibbed(t, 6, whole[1:]), inflate.ErrShort},
		"another compression":           {change(good, 0), errNotZlib},
		"a header that doesn't add up":  {change(good, 1), errNotZlib},
		"a dictionary that nobody has":  {append([]byte{0x78, 0xbb}, good[2:]...), errNotZlib},
		"a deflate stream without more": {good[2:], errNotZlib},
		"nothing":                       {nil, errNotZlib},
	}
	var d Decoder
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := make([]byte, len(whole))
			if err := d.Decode(got, image.Zlib, test.stored); !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if test.want == nil && !bytes.Equal(got, whole) {
				t.Error("not what was encoded")
			}
		})
	}
}

// FuzzZlib compares with the standard library: what decodes to exactly n bytes there must here too, and nothing else.
func FuzzZlib(f *testing.F) {
	for level := 0; level <= 9; level += 3 {
		f.Add(zlibbed(f, level, text(1000)), uint16(1000))
		f.Add(zlibbed(f, level, skewed(5000, 3)), uint16(5000))
		f.Add(zlibbed(f, level, text(1001)), uint16(1000))
	}
	f.Add([]byte{}, uint16(1))
	f.Fuzz(func(t *testing.T, stored []byte, n uint16) {
		var want []byte
		r, err := reference.NewReader(bytes.NewReader(stored))
		if err == nil {
			want, err = io.ReadAll(io.LimitReader(r, int64(n)+1))
		}
		var d Decoder
		got := make([]byte, n)
		gotErr := d.Decode(got, image.Zlib, stored)
		if wanted := err == nil && len(want) == int(n); wanted != (gotErr == nil) || wanted && !bytes.Equal(got, want) {
			t.Fatalf("got %v, want %d bytes, %v", gotErr, len(want), err)
		}
	})
}
