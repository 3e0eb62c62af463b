package codec

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"vmdisk.io/vmdisk/internal/image"
)

func deflate(t testing.TB, level int, p []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t testing.TB, p []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func text(n int) []byte { return bytes.Repeat([]byte("some text, and some more of it; "), n/32+1)[:n] }

func TestDecodeFillsItsOutputAndIgnoresWhatLiesBehind(t *testing.T) {
	whole := text(64 << 10)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	tests := map[string]struct {
		encoding image.Encoding
		stored   []byte
	}{
		"plain":                              {image.Plain, join(whole, []byte("rest"))},
		"deflate":                            {image.Deflate, deflate(t, 9, whole)},
		"deflate with a neighbour":           {image.Deflate, join(deflate(t, 1, whole), deflate(t, 9, text(100)))},
		"deflate, stored":                    {image.Deflate, deflate(t, 0, whole)},
		"deflate that goes on":               {image.Deflate, deflate(t, 9, text(128<<10))},
		"zstd":                               {image.Zstd, zstandard(t, whole)},
		"zstd with a checksum":               {image.Zstd, zstandard(t, whole, zstd.WithEncoderCRC(true))},
		"zstd with a neighbour":              {image.Zstd, join(zstandard(t, whole), zstandard(t, text(1<<20)))},
		"zstd with a neighbour that is cut":  {image.Zstd, join(zstandard(t, whole), zstandard(t, text(1<<20))[:20])},
		"zstd with padding":                  {image.Zstd, join(zstandard(t, whole), make([]byte, 500))},
		"zstd in two frames":                 {image.Zstd, join(zstandard(t, whole[:1000]), zstandard(t, whole[1000:]))},
		"zstd, a skippable frame in between": {image.Zstd, join(zstandard(t, whole[:1000]), []byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc"), zstandard(t, whole[1000:]))},
	}
	var d Decoder // one for all, to see that it forgets
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := make([]byte, len(whole))
			if err := d.Decode(got, test.encoding, test.stored); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, whole) {
				t.Error("not what was encoded")
			}
		})
	}
}

func TestDecodeRefusesWhatIsTooShortOrNotEncoded(t *testing.T) {
	whole := text(4096)
	tests := map[string]struct {
		encoding image.Encoding
		stored   []byte
	}{
		"plain, a byte short":        {image.Plain, whole[:4095]},
		"deflate, nothing":           {image.Deflate, nil},
		"deflate, a byte short":      {image.Deflate, deflate(t, 9, whole[:4095])},
		"deflate, cut":               {image.Deflate, deflate(t, 9, whole)[:20]},
		"deflate, noise":             {image.Deflate, bytes.Repeat([]byte{0xff}, 100)},
		"zstd, nothing":              {image.Zstd, nil},
		"zstd, a byte short":         {image.Zstd, zstandard(t, whole[:4095])},
		"zstd, cut":                  {image.Zstd, zstandard(t, whole)[:20]},
		"zstd, noise":                {image.Zstd, bytes.Repeat([]byte{0xff}, 100)},
		"zstd that is longer":        {image.Zstd, zstandard(t, text(4097))},
		"zstd of 10 MiB":             {image.Zstd, zstandard(t, make([]byte, 10<<20))},
		"an encoding that isn't one": {image.Encoding(200), whole},
	}
	var d Decoder
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := d.Decode(make([]byte, len(whole)), test.encoding, test.stored); err == nil {
				t.Error("no error")
			}
		})
	}
}

// FuzzDeflate compares with another inflater: what that one decodes ours must too, and to the same.
func FuzzDeflate(f *testing.F) {
	for level := range 10 {
		f.Add(deflate(f, level, text(1000)))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, stored []byte) {
		want := make([]byte, 1000)
		_, err := io.ReadFull(flate.NewReader(bytes.NewReader(stored)), want)
		var d Decoder
		got := make([]byte, 1000)
		gotErr := d.Decode(got, image.Deflate, stored)
		if (err == nil) != (gotErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("got %v, want %v", gotErr, err)
		}
	})
}

// FuzzZstd sees that a decoder of hostile frames ends, and stays within its output.
func FuzzZstd(f *testing.F) {
	f.Add(zstandard(f, text(1000)))
	f.Add(zstandard(f, text(3000), zstd.WithEncoderCRC(true)))
	f.Add([]byte("\x50\x2a\x4d\x18\xff\xff\xff\xff"))
	f.Add([]byte("\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		var d Decoder
		all := make([]byte, 2000)
		_ = d.Decode(all[:1000], image.Zstd, stored) // an error is as good as none
		if !bytes.Equal(all[1000:], make([]byte, 1000)) {
			t.Fatal("written behind the output")
		}
	})
}
