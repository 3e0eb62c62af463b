package codec

import (
	"bytes"
	reference "compress/flate"
	"errors"
	"io"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/stream/inflate"
)

// encoded is p as an encoder writes it.
func encoded[W io.WriteCloser](t testing.TB, p []byte, encoder func(io.Writer) (W, error)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := encoder(&out)
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

func deflate(t testing.TB, level int, p []byte) []byte {
	t.Helper()
	return encoded(t, p, func(w io.Writer) (*flate.Writer, error) { return flate.NewWriter(w, level) })
}

func zlibbed(t testing.TB, level int, p []byte) []byte {
	t.Helper()
	return encoded(t, p, func(w io.Writer) (*zlib.Writer, error) { return zlib.NewWriterLevel(w, level) })
}

func zstandard(t testing.TB, p []byte, options ...zstd.EOption) []byte {
	t.Helper()
	return encoded(t, p, func(w io.Writer) (*zstd.Encoder, error) { return zstd.NewWriter(w, options...) })
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

// skewed is bytes of which the frequent ones are very frequent, so that their code has short and long members.
func skewed(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 5))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(bits.TrailingZeros64(r.Uint64())) * byte(1+r.IntN(7))
	}
	return b
}

// TestDeflateOfEveryShape decodes what all levels of an encoder make of data of many kinds, as a whole and in part.
func TestDeflateOfEveryShape(t *testing.T) {
	var noise [70_000]byte
	r := rand.NewChaCha8([32]byte{1})
	if _, err := r.Read(noise[:]); err != nil {
		t.Fatal(err)
	}
	var d Decoder
	for name, whole := range map[string][]byte{
		"zeros": make([]byte, 70_000), "text": text(70_000), "noise": noise[:], "program": program(), "skewed": skewed(70_000, 1), "more skewed": bytes.Repeat(skewed(7_000, 2), 10),
		"pairs": bytes.Repeat([]byte("ab"), 35_000), "seven": bytes.Repeat([]byte("abcdefg"), 10_000), "a few": []byte("abcabcabc"),
	} {
		for level := flate.HuffmanOnly; level <= 9; level++ {
			stored := deflate(t, level, whole)
			for _, n := range []int{0, 1, len(whole) / 3, len(whole) - 1, len(whole)} {
				got := make([]byte, n)
				if err := d.Decode(got, image.Deflate, stored); err != nil || !bytes.Equal(got, whole[:n]) {
					t.Fatalf("%s, level %d, %d bytes: %v", name, level, n, err)
				}
			}
			if err := d.Decode(make([]byte, len(whole)+1), image.Deflate, stored); !errors.Is(err, inflate.ErrShort) {
				t.Fatalf("%s, level %d, a byte too many: %v", name, level, err)
			}
			for n := range min(len(stored), 300) {
				got := make([]byte, len(whole))
				if err := d.Decode(got, image.Deflate, stored[:n]); err == nil && !bytes.Equal(got, whole) { // only the end's mark may be missing
					t.Fatalf("%s, level %d, cut after %d bytes: no error", name, level, n)
				}
			}
		}
	}
}

// FuzzDeflate compares with the standard library's inflater: what that one decodes ours must too, and to the same.
func FuzzDeflate(f *testing.F) {
	for level := flate.HuffmanOnly; level <= 9; level++ {
		f.Add(deflate(f, level, text(1000)), uint16(1000))
		f.Add(deflate(f, level, skewed(5000, 3)), uint16(4000))
		f.Add(deflate(f, level, program()[:6000]), uint16(6000))
	}
	f.Add([]byte{}, uint16(1))
	f.Add(bytes.Repeat([]byte{0xff}, 100), uint16(1000))
	f.Add([]byte("\x05\xe0\x81\x08\x00\x00\x00\x00\x20\x7f\xeb\x0b"), uint16(10)) // one code of one bit
	f.Fuzz(func(t *testing.T, stored []byte, n uint16) {
		want := make([]byte, n)
		_, err := io.ReadFull(reference.NewReader(bytes.NewReader(stored)), want)
		var d Decoder
		got := make([]byte, n)
		gotErr := d.Decode(got, image.Deflate, stored)
		if (err == nil) != (gotErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("got %v, want %v", gotErr, err)
		}
		if gotErr != nil { // nothing stays behind from an error
			if whole := text(500); d.Decode(got[:0:0], image.Deflate, nil) != nil || d.Decode(make([]byte, 500), image.Deflate, deflate(t, 6, whole)) != nil {
				t.Fatal("the decoder doesn't recover")
			}
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
