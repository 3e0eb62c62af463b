package lockfile

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestOneHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	never := func() { t.Error("somebody is waited for, and nobody holds the lock") }
	first, err := Take(t.Context(), path, never)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the user pressed ^C")
	cancel(stopped)
	waits := 0
	if _, err := Take(ctx, path, func() { waits++ }); !errors.Is(err, stopped) {
		t.Errorf("waiting for the lock ended with %v, want the end's cause", err)
	}
	if waits != 1 {
		t.Errorf("the wait was told %d times, want once", waits)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Take(t.Context(), path, never)
	if err != nil {
		t.Fatalf("the lock wasn't given back: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheLockIsHandedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Take(t.Context(), path, func() {})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Take(t.Context(), path, func() {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
