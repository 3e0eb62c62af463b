// Package lockfile lets one process at a time do something on this machine. It must not know what.
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lookEvery is the pause between two tries: nothing tells when a lock is given back, and a flock that waits in the kernel
// would not end with the context.
const lookEvery = 100 * time.Millisecond

// Take locks the file at path, which it makes if need be. Closing the file gives the lock back, and so does the end of the
// process and of those that inherited the file. While another process holds it, Take waits for as long as ctx lasts, and
// calls waiting once before. Its error then holds ctx's cause.
func Take(ctx context.Context, path string, waiting func()) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	for told := false; ; told = true {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if !told {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for who holds %s: %w", path, context.Cause(ctx)), file.Close())
		case <-time.After(lookEvery):
		}
	}
}
