package stream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestPeekAnswersTheWholeStream(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "shorter": "abc", "as long": "abcdefgh", "longer": "abcdefghij"} {
		t.Run(name, func(t *testing.T) {
			head, whole, err := Peek(iotest.OneByteReader(strings.NewReader(content)), 8)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(content[:min(len(content), 8)], string(head)); diff != "" {
				t.Error(diff)
			}
			got, err := io.ReadAll(whole)
			if err != nil || string(got) != content {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestPeekAnswersTheErrorOfItsStream(t *testing.T) {
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken))
	if _, _, err := Peek(r, 8); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestParseChecksum(t *testing.T) {
	tests := map[string]struct {
		text, want, err string
	}{
		"md5":             {text: "md5:d41d8cd98f00b204e9800998ecf8427e", want: "md5:d41d8cd98f00b204e9800998ecf8427e"},
		"sha1":            {text: "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709", want: "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		"upper case":      {text: " SHA1:DA39A3EE5E6B4B0D3255BFEF95601890AFD80709\n", want: "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		"sha256":          {text: "sha256:" + strings.Repeat("0f", 32), want: "sha256:" + strings.Repeat("0f", 32)},
		"sha512":          {text: "sha512:" + strings.Repeat("0f", 64), want: "sha512:" + strings.Repeat("0f", 64)},
		"none":            {text: "", want: ""},
		"no algorithm":    {text: "abc", err: `checksum "abc": write it as algorithm:hex, where the algorithm is md5, sha1, sha256 or sha512`},
		"an unknown one":  {text: "crc:00", err: `checksum "crc:00": write it as algorithm:hex, where the algorithm is md5, sha1, sha256 or sha512`},
		"too few digits":  {text: "md5:00", err: `checksum "md5:00": md5 needs 32 hexadecimal digits`},
		"no hexadecimals": {text: "md5:" + strings.Repeat("x", 32), err: `checksum "md5:` + strings.Repeat("x", 32) + `": md5 needs 32 hexadecimal digits`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseChecksum(test.text)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff([]string{test.want, test.err}, []string{got.String(), text}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVerifyFailsAtTheEndOfAnotherStream(t *testing.T) {
	sums := map[string]string{
		"md5": "900150983cd24fb0d6963f7d28e17f72", "sha1": "a9993e364706816aba3e25717850c26c9cd0d89d",
		"sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"sha512": "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
	}
	for algorithm, sum := range sums {
		t.Run(algorithm, func(t *testing.T) {
			want, err := ParseChecksum(algorithm + ":" + sum)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(Verify(iotest.HalfReader(strings.NewReader("abc")), want))
			if err != nil || string(got) != "abc" {
				t.Errorf("got %q, %v", got, err)
			}
			r := Verify(iotest.DataErrReader(strings.NewReader("abd")), want)
			var mismatch *ChecksumError
			if got, err = io.ReadAll(r); !errors.As(err, &mismatch) || string(got) != "abd" || mismatch.Want != want {
				t.Errorf("got %q, %v", got, err)
			}
			if _, err := r.Read(make([]byte, 1)); !errors.As(err, &mismatch) {
				t.Errorf("read again: %v", err)
			}
		})
	}
}

func TestVerifyWithoutAChecksumIsTheReaderItself(t *testing.T) {
	r := strings.NewReader("abc")
	if Verify(r, Checksum{}) != io.Reader(r) {
		t.Error("it was wrapped")
	}
}

func TestCountCountsWhatWasRead(t *testing.T) {
	c := Count(bytes.NewReader(make([]byte, 1000)))
	if _, err := io.CopyN(io.Discard, c, 300); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(int64(300), c.Bytes()); diff != "" {
		t.Error(diff)
	}
}

func TestLimitTellsAStreamThatGoesOn(t *testing.T) {
	for name, test := range map[string]struct {
		content, want string
		tooLong       bool
	}{
		"shorter": {"ab", "ab", false},
		"as long": {"abc", "abc", false},
		"longer":  {"abcd", "abc", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(Limit(iotest.DataErrReader(strings.NewReader(test.content)), 3))
			var tooLong *TooLongError
			if errors.As(err, &tooLong) != test.tooLong || !test.tooLong && err != nil || string(got) != test.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
