package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errDied is why a process ends that a fault has ended.
var errDied = errors.New("a fault has ended the driver")

// deathFile holds the time until which the driver stays dead, as RFC 3339 has it.
func deathFile(stateDir string) string { return filepath.Join(stateDir, "dead-until") }

// die ends the process, and has whatever starts it again wait for that long. What is returned hardly reaches the caller.
func (b *backend) die(pause time.Duration) error {
	until := time.Now().Add(pause).Format(time.RFC3339Nano)
	if err := os.WriteFile(deathFile(b.stateDir), []byte(until), 0o644); err != nil {
		return fmt.Errorf("note until when the driver stays dead: %w", err)
	}
	b.stop(errDied)
	return status.Error(codes.Unavailable, errDied.Error())
}

// stayDead returns once the process may live again, or with alive false once ctx is done.
func stayDead(ctx context.Context, stateDir string) (alive bool, err error) {
	raw, err := os.ReadFile(deathFile(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read until when the driver stays dead: %w", err)
	}
	until, err := time.Parse(time.RFC3339Nano, string(raw))
	if err != nil {
		return false, fmt.Errorf("read until when the driver stays dead in %s: %w", deathFile(stateDir), err)
	}
	slog.Info("staying dead, as a fault asks", "until", until)
	select {
	case <-time.After(time.Until(until)):
	case <-ctx.Done():
		return false, nil
	}
	if err := os.Remove(deathFile(stateDir)); err != nil {
		return false, fmt.Errorf("come back to life: %w", err)
	}
	return true, nil
}
