package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hashChunk is how many bytes are read and hashed at once.
const hashChunk = 4 << 20

// HashDisk returns the hex sha256 of the first size bytes of a file or block device; size 0 means all of a file. Every
// one of those bytes goes through the hash, holes as zeros; holes are only not read, which is where the time would go.
// A loop device is read through its backing file, since block devices don't tell their holes. A disk that is shorter
// than size is an error.
func HashDisk(ctx context.Context, path string, size int64) (string, error) {
	sum, err := hashDisk(ctx, path, size)
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", path, err)
	}
	return sum, nil
}

func hashDisk(ctx context.Context, path string, size int64) (string, error) {
	path, err := backingFile(path)
	if err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	if size == 0 {
		size = end
	}
	if end < size {
		return "", fmt.Errorf("it has only %d of %d bytes", end, size)
	}
	sum := sha256.New()
	if err := hashSparse(ctx, sum, file, size); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// hashSparse feeds sum with the first size bytes of file, segment by segment, lseek(2).
func hashSparse(ctx context.Context, sum hash.Hash, file *os.File, size int64) error {
	zeros, buffer := make([]byte, hashChunk), make([]byte, hashChunk)
	for offset := int64(0); offset < size; {
		data, err := file.Seek(offset, unix.SEEK_DATA)
		hole := size
		switch {
		case errors.Is(err, unix.ENXIO): // a hole up to the end
			data = size
		case errors.Is(err, unix.EINVAL): // a block device, which doesn't know: all is data
			data = offset
		case err != nil:
			return fmt.Errorf("find data after byte %d: %w", offset, err)
		default:
			if hole, err = file.Seek(data, unix.SEEK_HOLE); err != nil {
				return fmt.Errorf("find a hole after byte %d: %w", data, err)
			}
		}
		data, hole = min(data, size), min(hole, size)
		for ; offset < data; offset += min(hashChunk, data-offset) {
			if err := ctx.Err(); err != nil {
				return err
			}
			sum.Write(zeros[:min(hashChunk, data-offset)])
		}
		for offset < hole {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := file.ReadAt(buffer[:min(hashChunk, hole-offset)], offset)
			if n == 0 && err != nil {
				return fmt.Errorf("read at byte %d: %w", offset, err)
			}
			sum.Write(buffer[:n])
			offset += int64(n)
		}
	}
	return nil
}

// backingFile returns the file behind a loop device, after the device's own cache was written to it, and any other
// path unchanged.
func backingFile(path string) (string, error) {
	device, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	loop := filepath.Join("/sys/block", filepath.Base(device), "loop")
	text, err := os.ReadFile(filepath.Join(loop, "backing_file"))
	if err != nil || !strings.HasPrefix(device, "/dev/") {
		return path, nil // not a loop device
	}
	// One that starts in the middle of its file is read as a device.
	if start, err := os.ReadFile(filepath.Join(loop, "offset")); err != nil || strings.TrimSpace(string(start)) != "0" {
		return path, err
	}
	file, err := os.Open(device)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return "", fmt.Errorf("flush the device: %w", err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}
