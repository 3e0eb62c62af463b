package xz

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"testing"
)

// stored is the LZMA2 stream in the file that xz makes of content, with what follows it.
func stored(t testing.TB, content []byte, options ...string) []byte {
	t.Helper()
	cmd := exec.Command("xz", append([]string{"-c", "-T1"}, options...)...)
	cmd.Stdin = bytes.NewReader(content)
	file, err := cmd.Output()
	if err != nil {
		t.Fatalf("xz is missing, or failed (Debian: apt-get install xz-utils): %v", err)
	}
	in := bufio.NewReader(bytes.NewReader(file[4:]))
	if _, err := readStreamHeader(in, file[:4]); err != nil {
		t.Fatal(err)
	}
	first, err := in.ReadByte()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readBlockHeader(in, first); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return rest
}

// decodeAll decodes an LZMA2 stream, and answers whether it came to its end. It stops behind most bytes.
func decodeAll(d *lzma2, file []byte, dict uint32, limit, most int) (out []byte, whole bool) {
	d.restart(dict, limit)
	in := bytes.NewReader(file)
	for len(out) <= most {
		part, _, err := d.chunk(in)
		if err != nil {
			return out, err == io.EOF && d.ended
		}
		out = append(out, part...)
	}
	return out, false
}

// FuzzLZMA2 decodes hostile streams, which no checksum protects, into one buffer and through a small window: what the first
// takes the second must take, too, and it must be the same. The decoder is used again, so that nothing may stay behind.
func FuzzLZMA2(f *testing.F) {
	content := append(bytes.Repeat([]byte("some text, and some more of it; "), 40), make([]byte, 3000)...)
	for i := range content[:1000] {
		content[i] ^= byte(i * i >> 3)
	}
	for _, options := range [][]string{{"-0"}, {"-9e"}, {"--lzma2=preset=3,lc=0,lp=4,pb=4"}, {"--lzma2=dict=4KiB,lc=1,lp=3,pb=0"}, {"--lzma2=preset=0,lc=4,lp=0,pb=2,mf=hc3"}} {
		packed := stored(f, content, options...)
		f.Add(packed)
		f.Add(append(packed[:len(packed)/2:len(packed)/2], packed...))
	}
	f.Add([]byte("\x01\x00\x04hello\x02\x00\x04hello\x00"))
	var large, small lzma2
	f.Fuzz(func(t *testing.T, file []byte) {
		const dict, most = 4 << 10, 1 << 20
		want, wantWhole := decodeAll(&large, file, dict, most+2*maxChunk, most)
		got, whole := decodeAll(&small, file, dict, dict+maxChunk+1000, most)
		if whole != wantWhole || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, whole: %t; want %d, %t", len(got), whole, len(want), wantWhole)
		}
		if cap(small.buf) > max(smallBuffer, dict+maxChunk+1000) {
			t.Fatalf("the buffer has %d bytes", cap(small.buf))
		}
	})
}
