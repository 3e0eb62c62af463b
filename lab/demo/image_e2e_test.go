//go:build e2e

package demo

import (
	"os"
	"testing"
)

// TestTheImageBoots needs root, Debian and its mirror; it takes some minutes the first time and one later.
func TestTheImageBoots(t *testing.T) {
	image, err := Image(t.Context(), CacheDir(), os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(image.Raw)
	if err != nil {
		t.Fatal(err)
	}
	booted, err := Boot(t.Context(), image.Raw, os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", booted)
	after, err := os.Stat(image.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if !before.ModTime().Equal(after.ModTime()) {
		t.Error("booting wrote to the disk: it must write to its overlay only")
	}
}
