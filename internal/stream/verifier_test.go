package stream

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func checksum(t *testing.T, algorithm string, b []byte) Checksum {
	t.Helper()
	h := newHash(algorithm)
	h.Write(b)
	c, err := ParseChecksum(algorithm + ":" + hex.EncodeToString(h.Sum(nil)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAVerifierGoesOnFromEachOfItsStates stops after so many bytes and goes on from the state that is remembered.
func TestAVerifierGoesOnFromEachOfItsStates(t *testing.T) {
	content := make([]byte, 5*stateStride+100)
	for i := range content {
		content[i] = byte(i * i >> 5)
	}
	for _, algorithm := range []string{"md5", "sha1", "sha256", "sha512"} {
		t.Run(algorithm, func(t *testing.T) {
			want := checksum(t, algorithm, content)
			for stop := 0; stop <= len(content); stop += stateStride / 2 {
				first, err := VerifyFrom(iotest.HalfReader(bytes.NewReader(content)), want, State{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.CopyN(io.Discard, first, int64(stop)); err != nil {
					t.Fatal(err)
				}
				state := first.State(int64(stop))
				if at := int64(stop / stateStride * stateStride); state.Offset != at {
					t.Fatalf("after %d bytes the state is of %d, want %d", stop, state.Offset, at)
				}
				second, err := VerifyFrom(bytes.NewReader(content[state.Offset:]), want, state)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, second); err != nil {
					t.Errorf("from %d on: %v", state.Offset, err)
				}
				other, err := VerifyFrom(bytes.NewReader(append(bytes.Clone(content[state.Offset:]), 0)), want, state)
				if err != nil {
					t.Fatal(err)
				}
				var mismatch *ChecksumError
				if _, err := io.Copy(io.Discard, other); !errors.As(err, &mismatch) {
					t.Errorf("another end: %v", err)
				}
			}
		})
	}
}

func TestAVerifierRemembersABoundedNumberOfStates(t *testing.T) {
	v, err := VerifyFrom(bytes.NewReader(make([]byte, 1<<20)), checksum(t, "md5", nil), State{})
	if err != nil {
		t.Fatal(err)
	}
	v.stride = 64
	if _, err := io.CopyN(io.Discard, v, 1<<20); err != nil {
		t.Fatal(err)
	}
	if len(v.states) >= maxStates || v.stride <= 64 {
		t.Errorf("%d states, %d bytes apart", len(v.states), v.stride)
	}
	for _, offset := range []int64{1 << 10, 1 << 19, 1<<20 - 1} {
		if s := v.State(offset); s.Offset > offset || s.Offset <= offset-2*v.stride {
			t.Errorf("for %d it answers the state of %d", offset, s.Offset)
		}
	}
}

func TestAStateThatIsNoneIsRefused(t *testing.T) {
	for name, hash := range map[string][]byte{"nothing": nil, "noise": []byte("noise")} {
		if _, err := VerifyFrom(bytes.NewReader(nil), checksum(t, "sha256", nil), State{Offset: 5, Hash: hash}); err == nil {
			t.Errorf("%s is taken for one", name)
		}
	}
}

func TestWithoutAChecksumAnyOffsetIsAState(t *testing.T) {
	v, err := VerifyFrom(bytes.NewReader([]byte("abc")), Checksum{}, State{Offset: 7})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(v); err != nil || string(b) != "abc" || v.State(9).Offset != 9 {
		t.Errorf("%q, %v", b, err)
	}
}
