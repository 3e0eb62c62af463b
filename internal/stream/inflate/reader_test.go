package inflate

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
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

// mixed is runs of zeros, noise, and words that come again from near and far.
func mixed(n int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	for at := 0; at < n; {
		run := b[at:min(n, at+1+r.IntN(40_000))]
		switch r.IntN(4) {
		case 0:
		case 1:
			for i := range run {
				run[i] = byte(r.Uint32())
			}
		case 2:
			copy(run, b[max(0, at-1-r.IntN(windowBytes)):at])
		default:
			for i := range run {
				run[i] = "one word and another, "[(i+r.IntN(2))%22]
			}
		}
		at += len(run)
	}
	return b
}

func TestStreamsAndWhatIsBetweenThemAreRead(t *testing.T) {
	whole := mixed(outputBytes + 3*windowBytes)
	for level := flate.HuffmanOnly; level <= flate.BestCompression; level++ {
		for _, n := range []int{0, 1, windowBytes - 1, windowBytes, windowBytes + 1, outputBytes, windowBytes + outputBytes, windowBytes + outputBytes + 1, len(whole)} {
			packed := deflate(t, level, whole[:n])
			file := slices.Concat([]byte("a"), packed, []byte("bc"), packed, []byte("d"))
			for name, in := range map[string]io.Reader{"whole": bytes.NewReader(file), "byte by byte": iotest.OneByteReader(bytes.NewReader(file)), "with its end": iotest.DataErrReader(bytes.NewReader(file))} {
				z := NewReader(in)
				requireBytes(t, z, "a")
				for _, behind := range []string{"bc", "d"} {
					z.Begin()
					got, err := io.ReadAll(z)
					if err != nil || !bytes.Equal(got, whole[:n]) {
						t.Fatalf("level %d, %d bytes, %s: got %d bytes, %v", level, n, name, len(got), err)
					}
					requireBytes(t, z, behind)
				}
				if _, err := z.ReadByte(); err != io.EOF {
					t.Errorf("level %d, %d bytes, %s: %v at the end", level, n, name, err)
				}
			}
		}
	}
}

// requireBytes reads what lies between two streams.
func requireBytes(t *testing.T, z *Reader, want string) {
	t.Helper()
	for i := range len(want) {
		if b, err := z.ReadByte(); err != nil || b != want[i] {
			t.Fatalf("got %q, %v, want %q", b, err, want[i])
		}
	}
}

func TestAStreamThatEndsTooEarlyGivesWhatItHas(t *testing.T) {
	whole := mixed(100_000)
	packed := deflate(t, 6, whole)
	reset := errors.New("reset")
	for at := 0; at < len(packed); at += 1 + at/8 {
		for _, test := range []struct {
			in   io.Reader
			want error
		}{
			{bytes.NewReader(packed[:at]), io.ErrUnexpectedEOF},
			{io.MultiReader(bytes.NewReader(packed[:at]), iotest.ErrReader(reset)), reset},
		} {
			z := NewReader(test.in)
			z.Begin()
			got, err := io.ReadAll(z)
			if !errors.Is(err, test.want) || !bytes.HasPrefix(whole, got) {
				t.Errorf("cut after %d of %d bytes: got %d bytes, %v, want %v", at, len(packed), len(got), err, test.want)
			}
		}
	}
}

func TestWhatIsNoStreamIsCorrupt(t *testing.T) {
	for name, file := range map[string]string{
		"a block of the fourth type":         "\x07",
		"a stored block's length":            "\x01\x05\x00\x05\x00hello",
		"a repetition of what isn't there":   "\x03\x02\x00\x00\x00\x00",
		"more distance codes than there are": "\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		z := NewReader(bytes.NewReader([]byte(file)))
		z.Begin()
		if got, err := io.ReadAll(z); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// FuzzReader compares with the standard library's reader, with the input in two parts.
func FuzzReader(f *testing.F) {
	for level := flate.HuffmanOnly; level <= flate.BestCompression; level++ {
		f.Add(deflate(f, level, mixed(3000)), uint16(100))
	}
	f.Add(deflate(f, 6, make([]byte, 400_000)), uint16(50))
	f.Add([]byte("\x01\x05\x00\xfa\xffhello, and more"), uint16(7))
	f.Fuzz(func(t *testing.T, file []byte, cut uint16) {
		const most = 1 << 20
		reference := bytes.NewReader(file)
		want, wantErr := io.ReadAll(io.LimitReader(flate.NewReader(reference), most))
		at := min(int(cut), len(file))
		z := NewReader(io.MultiReader(bytes.NewReader(file[:at]), bytes.NewReader(file[at:])))
		z.Begin()
		got, err := io.ReadAll(io.LimitReader(z, most))
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, %v; want %d, %v", len(got), err, len(want), wantErr)
		}
		if err != nil || len(got) == most {
			return
		}
		behind := 0
		for ; ; behind++ {
			if _, err := z.ReadByte(); err != nil {
				break
			}
		}
		if behind != reference.Len() {
			t.Fatalf("%d bytes lie behind the stream, want %d", behind, reference.Len())
		}
	})
}
