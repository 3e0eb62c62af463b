package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/transfer"
)

// resumeVersion is the version of what --resume's FILE holds.
const resumeVersion = 1

// maxResumeFile is how much of such a file is read, in bytes; its own are much shorter.
const maxResumeFile = 64 << 10

// resumption is the checkpoint of a conversion in a file. The file is there from the first checkpoint to the conversion's
// end. A nil *resumption keeps nothing.
type resumption struct {
	path   string
	target string // absolute
	// checkpoint is what an earlier conversion has left; nil for nothing.
	checkpoint *transfer.Checkpoint
	// begun says that the unfinished target file is this conversion's.
	begun bool
}

// resumeFile is what the file holds, as JSON.
type resumeFile struct {
	Version    int                 `json:"vmdiskResume"`
	Target     string              `json:"target"`
	Checkpoint transfer.Checkpoint `json:"checkpoint"`
}

// openResumption reads the file, which need not exist. A file that is something else is not touched.
func openResumption(path, target string) (*resumption, error) {
	if path == "" {
		return nil, nil
	}
	target, err := filepath.Abs(target)
	if err != nil {
		return nil, fmt.Errorf("find the target: %w", err)
	}
	r := &resumption{path: path, target: target}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
			return nil, usage("--resume %s: there is no directory %s", path, filepath.Dir(path))
		}
		return r, nil
	}
	if err != nil {
		return nil, usage("--resume: %v", err)
	}
	var file resumeFile
	if info.Mode().IsRegular() && info.Size() <= maxResumeFile {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, usage("--resume: %v", err)
		}
		if json.Unmarshal(b, &file) != nil {
			file = resumeFile{}
		}
	}
	switch {
	case file.Version == 0:
		return nil, usage("--resume %s: this file was not made by vmdisk: name one that doesn't exist yet", path)
	case file.Version != resumeVersion:
		return nil, usage("--resume %s: this file was made by another version of vmdisk: remove it to start over", path)
	case file.Target != target:
		return nil, usage("--resume %s: this file belongs to a conversion to %s: name another one, or remove it to start over", path, file.Target)
	}
	r.checkpoint = &file.Checkpoint
	return r, nil
}

// save replaces the file.
func (r *resumption) save(c transfer.Checkpoint) error {
	b, err := json.Marshal(resumeFile{resumeVersion, r.target, c})
	if err != nil {
		return fmt.Errorf("encode the checkpoint: %w", err)
	}
	if err := replaceFile(r.path, append(b, '\n')); err != nil {
		return fmt.Errorf("keep the checkpoint in %s: %w", r.path, err)
	}
	return nil
}

// resumed forgets the checkpoint of a conversion that starts over, before its target is cleared: a crash behind that must not lead back to it.
func (r *resumption) resumed(_ int64, startsOver string) error {
	if startsOver == "" {
		return nil
	}
	if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the checkpoint in %s: %w", r.path, err)
	}
	return nil
}

// replaceFile gives a file new content: whoever reads it, also after a crash, gets the old or the new one.
func replaceFile(path string, content []byte) error {
	next := path + ".new"
	f, err := os.Create(next)
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(content).WriteTo(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	return err
}

// part is where the unfinished target file at path is.
func (r *resumption) part(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
}

// end is called when a conversion to path has ended. It answers whether another one can go on from there; nothing is left of one
// that is done, and of one that would fail again.
func (r *resumption) end(path string, err error) (goesOn bool, _ error) {
	var (
		refused  *image.Refused
		checksum *stream.ChecksumError
		misused  *usageError
	)
	if errors.As(err, &misused) {
		return false, nil // nothing was begun, and an earlier conversion's state may be of use
	}
	_, statErr := os.Stat(r.path)
	if err != nil && statErr == nil && !errors.As(err, &refused) && !errors.As(err, &checksum) {
		return true, nil
	}
	names := []string{r.path, r.path + ".new"}
	if r.begun || r.checkpoint != nil {
		names = append(names, r.part(path))
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("remove what is not needed any more: %w", err)
		}
	}
	return false, nil
}
