package stream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAnOriginRemembersAFailureAndNoEnd(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		in   io.Reader
		want error
	}{
		"a good end":                             {strings.NewReader("abc"), nil},
		"a failure":                              {io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), broken},
		"a failure that looks like an early end": {iotest.ErrReader(io.ErrUnexpectedEOF), io.ErrUnexpectedEOF},
	} {
		o := Remember(test.in, 0)
		if _, err := io.ReadAll(o); !errors.Is(err, test.want) {
			t.Errorf("%s: read %v", name, err)
		}
		if err := o.Err(); !errors.Is(err, test.want) {
			t.Errorf("%s: remembered %v", name, err)
		}
	}
}

func TestAnOriginEndsWhenNothingComesOfIt(t *testing.T) {
	o := Remember(&endless{}, 1000)
	b := make([]byte, 100)
	for range 50 {
		if _, err := io.ReadFull(o, b); err != nil {
			t.Fatal(err)
		}
		o.Fruitful()
	}
	n, err := io.Copy(io.Discard, o)
	var wrong *FormatError
	if !errors.As(err, &wrong) || wrong.Kind != Corrupt || !errors.Is(o.Err(), err) || n < 900 {
		t.Errorf("after %d bytes: %v", n, err)
	}
}
