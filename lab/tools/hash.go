package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// hash prints, for each file or block device, the SHA-256 of its bytes, how many there are, and its path.
func hash(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("hash", flag.ContinueOnError)
	limit := flags.Int64("bytes", -1, "hash only so many first bytes of each; fewer there are an error")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("give the paths of files or block devices, after the flags")
	}
	for _, path := range flags.Args() {
		sum, bytes, err := digest(ctx, path, *limit)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s %d %s\n", sum, bytes, path); err != nil {
			return err
		}
	}
	return nil
}

func digest(ctx context.Context, path string, limit int64) (sum string, bytes int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	var content io.Reader = until{ctx, f}
	hash := sha256.New()
	if limit >= 0 {
		bytes, err = io.CopyN(hash, content, limit)
	} else {
		bytes, err = io.Copy(hash, content)
	}
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w after %d bytes", path, err, bytes)
	}
	return hex.EncodeToString(hash.Sum(nil)), bytes, nil
}

// until reads until ctx is done.
type until struct {
	ctx context.Context
	io.Reader
}

func (u until) Read(buffer []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(buffer)
}
