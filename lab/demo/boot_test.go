package demo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConsole(t *testing.T) {
	tests := map[string]struct {
		writes   []string
		shown    string
		prompted bool
	}{
		"a prompt without an end of line is seen": {
			writes: []string{"Debian GNU/Linux\r\n\r\ndebian lo", "gin: "}, shown: "  | Debian GNU/Linux\n  | debian login:\n",
			prompted: true,
		},
		"what would clear the reader's screen is dropped": {
			writes: []string{"\x1b[H\x1b[J\x1b[1;1H  Booting\r\n[\x1b[0;32m  OK  \x1b[0m] Started\x1b]0;title\x07\n"},
			shown:  "  |   Booting\n  | [  OK  ] Started\n",
		},
		"a line without end is cut": {
			writes: []string{strings.Repeat("x", maxLine+3)},
			shown:  "  | " + strings.Repeat("x", maxLine) + "\n  | xxx\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			screen := newConsole(&out)
			for _, text := range test.writes {
				if _, err := screen.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			screen.flush()
			if diff := cmp.Diff(test.shown, out.String()); diff != "" {
				t.Error(diff)
			}
			prompted := false
			select {
			case <-screen.prompt:
				prompted = true
			default:
			}
			if prompted != test.prompted {
				t.Errorf("prompted %t, want %t", prompted, test.prompted)
			}
		})
	}
}

func TestAwaitPrompt(t *testing.T) {
	way := accelerator{name: "test", first: 8 * time.Second, silence: 30 * time.Second, total: 2 * time.Minute}
	ended := errors.New("exit status 1")
	tests := map[string]struct {
		guest func(screen *console, exited chan<- error)
		want  string
	}{
		"a login prompt is a success": {
			guest: func(screen *console, _ chan<- error) {
				time.Sleep(7 * time.Second)
				screen.Write([]byte("boot\n"))
				time.Sleep(29 * time.Second)
				screen.Write([]byte("debian login: "))
			},
		},
		"nothing at all ends early": {
			guest: func(*console, chan<- error) {},
			want:  "the console said nothing for 8s",
		},
		"silence after the boot loader ends later": {
			guest: func(screen *console, _ chan<- error) { screen.Write([]byte("boot\n")) },
			want:  "the console said nothing for 30s",
		},
		"a guest that talks for ever ends too": {
			guest: func(screen *console, _ chan<- error) {
				for range 20 {
					screen.Write([]byte("still here\n"))
					time.Sleep(10 * time.Second)
				}
			},
			want: "no login prompt within 2m0s",
		},
		"QEMU's own end is told": {
			guest: func(_ *console, exited chan<- error) { exited <- ended },
			want:  "the virtual machine ended by itself: exit status 1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			// The bubble's clock is a fake one: its sleeps take no time.
			synctest.Test(t, func(t *testing.T) {
				screen, exited := newConsole(&bytes.Buffer{}), make(chan error, 1)
				var guest sync.WaitGroup
				guest.Go(func() { test.guest(screen, exited) })
				defer guest.Wait()
				got := ""
				if err := awaitPrompt(t.Context(), way, screen, exited); err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestAwaitPromptEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the user pressed ^C")
	cancel(stopped)
	if err := awaitPrompt(ctx, kvm(), newConsole(&bytes.Buffer{}), nil); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
}
