package unpack

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"vmdisk.io/vmdisk/internal/stream"
)

// fuzzPacking unpacks hostile files: a reader must end, within bounds, with a good end or a *stream.FormatError, and say
// the same however its input comes.
func fuzzPacking(f *testing.F, p packer) {
	content := append(bytes.Repeat([]byte("some text, and some more of it; "), 40), make([]byte, 3000)...)
	for _, command := range p.commands {
		packed := tool(f, content, append(append([]string{}, command...), "-c")...)
		f.Add(packed)
		f.Add(packed[:len(packed)/2])
		f.Add(append(append([]byte{}, packed...), packed...))
		f.Add(append(append([]byte{}, packed...), "garbage"...))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		o := Options{MemoryBytes: 1 << 20, Workers: 2}
		var outs [2][]byte
		var kinds [2]string
		for i, in := range []io.Reader{bytes.NewReader(file), io.MultiReader(bytes.NewReader(file[:len(file)/2]), bytes.NewReader(file[len(file)/2:]))} {
			r, err := p.open(in, o)
			if err != nil {
				t.Fatal(err)
			}
			out, err := io.ReadAll(stream.Limit(r, 4<<20))
			var format *stream.FormatError
			var tooLong *stream.TooLongError
			if err != nil && !errors.As(err, &format) && !errors.As(err, &tooLong) {
				t.Fatalf("%v is no refusal", err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			outs[i], kinds[i] = out, "too long"
			if tooLong == nil {
				kinds[i] = kindOf(err)
			}
		}
		if p.name == "zstd" && isRefusal(kinds[0]) && isRefusal(kinds[1]) {
			return // of a file that is cut short, and whose next frame is corrupt or wants too much, the decoder's goroutines find either first
		}
		if kinds[0] != kinds[1] || kinds[0] == "none" && !bytes.Equal(outs[0], outs[1]) {
			t.Fatalf("%s and %s, %d and %d bytes", kinds[0], kinds[1], len(outs[0]), len(outs[1]))
		}
	})
}

func isRefusal(kind string) bool { return kind != "none" && kind != "too long" }

func FuzzGzip(f *testing.F)  { fuzzPacking(f, packers()[0]) }
func FuzzBzip2(f *testing.F) { fuzzPacking(f, packers()[1]) }
func FuzzZstd(f *testing.F)  { fuzzPacking(f, packers()[2]) }
func FuzzXZ(f *testing.F)    { fuzzPacking(f, packers()[3]) }

// FuzzTar walks through hostile archives.
func FuzzTar(f *testing.F) {
	dir := f.TempDir()
	for _, format := range []string{"v7", "ustar", "gnu", "posix"} {
		f.Add(tool(f, nil, "sh", "-c", "cd "+dir+" && head -c 5000 /dev/zero > a && echo b > b && truncate -s 1M c && tar --format="+format+" -cf - a b c"))
	}
	f.Add(tool(f, nil, "sh", "-c", "cd "+dir+" && tar -S -cf - c a"))
	f.Add(tool(f, nil, "sh", "-c", "cd "+dir+" && tar -S --format=posix -cf - c a"))
	f.Fuzz(func(t *testing.T, file []byte) {
		a := Tar(bytes.NewReader(file))
		for {
			m, err := a.Next()
			var format *stream.FormatError
			if err == io.EOF {
				return
			}
			if err == nil && m.Length <= 0 {
				t.Fatalf("%d bytes", m.Length)
			}
			if err == nil {
				var head []byte
				if head, _, err = a.Peek(1024); int64(len(head)) > m.Length {
					t.Fatalf("%d bytes of %d", len(head), m.Length)
				}
			}
			if err != nil && !errors.As(err, &format) {
				t.Fatalf("%v is no refusal", err)
			}
			if err != nil {
				return
			}
		}
	})
}
