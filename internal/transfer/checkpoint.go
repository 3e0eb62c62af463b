package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/stream"
)

// checkpointVersion is the version of Checkpoint's encoding.
const checkpointVersion = 1

// The distance between two checkpoints, in bytes of the source: a share of its length, within bounds.
const (
	checkpointShare    = 64
	minCheckpointBytes = 1 << 20
	maxCheckpointBytes = 256 << 20
)

// Checkpoint is how far a transfer has come, so that another one can go on from there. What was stored until then is on
// stable storage.
type Checkpoint struct {
	Version int `json:"version"`
	// Source is a digest of what the source says of its version; Target is one of the target's identity.
	Source string `json:"source"`
	Target string `json:"target"`
	// Checksum is the one that was asked for.
	Checksum string `json:"checksum,omitempty"`
	// Format and DiskBytes are the image's; DiskBytes may be image.Unknown.
	Format    image.Format `json:"format"`
	DiskBytes int64        `json:"diskBytes"`
	// Mark is the offset in the image to go on from; see image.Piece.
	Mark int64 `json:"mark"`
	// HashedBytes is how many of the image's first bytes Hash is the checksum's state after; at most Mark.
	HashedBytes int64  `json:"hashedBytes,omitempty"`
	Hash        []byte `json:"hash,omitempty"`
}

// Encode is the checkpoint as one line of less than a KiB.
func (c Checkpoint) Encode() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings, integers and bytes always encode
	}
	return string(b)
}

// ParseCheckpoint reads what Encode wrote. What this version can't read is answered as a Checkpoint that no transfer goes
// on from.
func ParseCheckpoint(text string) *Checkpoint {
	var c Checkpoint
	if json.Unmarshal([]byte(text), &c) != nil {
		return &Checkpoint{}
	}
	return &c
}

// digest is a short name for a text.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// version is a digest of what the source says of its version, empty where it can't be read again from the middle.
func (t *transfer) version() string {
	d := t.description
	if !d.Ranges || d.Validator == "" || d.Length < 0 {
		return ""
	}
	return digest(fmt.Sprintf("%d %s", d.Length, d.Validator))
}

// checkpoint is the checkpoint at a mark.
func (t *transfer) checkpoint(mark int64) Checkpoint {
	c := Checkpoint{
		Version: checkpointVersion, Source: t.version(), Target: digest(t.Target.Identity()), Checksum: t.Checksum.String(),
		Format: t.forward.Format(), DiskBytes: t.began, Mark: mark,
	}
	if !t.Checksum.IsZero() {
		state := t.verifier.State(mark)
		c.HashedBytes, c.Hash = state.Offset, state.Hash
	}
	return c
}

// keep hands over a checkpoint each time that the transfer has come far enough, until stop is closed.
func (t *transfer) keep(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case <-t.pool.marks.moved:
		}
		if mark := t.pool.marks.reached(); mark-t.kept >= t.distance() {
			if err := t.save(mark); err != nil {
				return err
			}
		}
	}
}

// save makes everything before mark durable and hands over the checkpoint there.
func (t *transfer) save(mark int64) error {
	if err := t.Target.Sync(); err != nil {
		return err
	}
	c := t.checkpoint(mark)
	if c.Source == "" || c.Target == "" {
		return nil // nobody could go on from it
	}
	t.kept = mark
	return t.Checkpoint(c)
}

// saveLast hands over a last checkpoint of a transfer that has ended with an error, if another one may do better.
func (t *transfer) saveLast(ctx context.Context, err error) error {
	var from *source.Error
	if t.Checkpoint == nil || !errors.As(err, &from) && ctx.Err() == nil {
		return nil
	}
	mark := t.pool.marks.reached()
	if mark <= t.kept {
		return nil
	}
	return t.save(mark)
}

// distance is how far apart checkpoints are, in bytes of the source.
func (t *transfer) distance() int64 {
	if t.CheckpointBytes > 0 {
		return t.CheckpointBytes
	}
	return min(max(t.description.Length/checkpointShare, minCheckpointBytes), maxCheckpointBytes)
}

// resume prepares to go on from Job.Resume. It answers the source's bytes from the mark on, or nil where the transfer must
// start over; startedOver then says why.
func (t *transfer) resume() (io.Reader, error) {
	c := t.Resume
	if t.startedOver = t.refuseSource(c); t.startedOver != "" {
		return nil, nil
	}
	t.allowRandom()
	if err := t.begin(io.NewSectionReader(t.random, 0, t.description.Length)); err != nil {
		return nil, err
	}
	if err := t.makeTarget(); err != nil {
		return nil, err
	}
	switch {
	case t.wrapped() || t.forward.Format() != c.Format || t.began != c.DiskBytes:
		t.startedOver = "the checkpoint is of another image"
	case digest(t.Target.Identity()) != c.Target:
		t.startedOver = "the disk is not the one that was begun"
	}
	if t.startedOver != "" {
		return nil, nil
	}
	start := c.Mark
	if !t.Checksum.IsZero() {
		start = c.HashedBytes
	}
	whole, err := t.openAt(stream.State{Offset: start, Hash: c.Hash})
	if err != nil {
		return nil, err
	}
	if whole == nil {
		t.startedOver = "the checkpoint is spoilt"
		return nil, nil
	}
	if _, err := io.CopyN(io.Discard, whole, c.Mark-start); err != nil { // what comes before the mark only counts for the checksum
		return nil, fmt.Errorf("read %s: %w", t.description.Name, noEOF(err))
	}
	t.start, t.kept = c.Mark, c.Mark
	t.packed.Stream = whole
	return whole, nil
}

// noEOF makes an error of an end that comes too early.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // a wrapped one is a failure already
		return io.ErrUnexpectedEOF
	}
	return err
}

// refuseSource says why the source can't be gone on with; empty where it can.
func (t *transfer) refuseSource(c *Checkpoint) string {
	switch {
	case c.Version != checkpointVersion || c.Source == "" || c.Target == "" || c.Mark < 0 || c.HashedBytes < 0 || c.HashedBytes > c.Mark:
		return "the checkpoint is spoilt, or of another version of vmdisk"
	case t.version() == "":
		return "the source can't be read from the middle: it serves no ranges, or tells nothing by which a change would be noticed"
	case t.version() != c.Source:
		return "the source has changed"
	case t.Checksum.String() != c.Checksum:
		return "another checksum is asked for"
	case c.Mark == 0 || c.Mark >= t.description.Length:
		return "nothing was done yet that need not be done again"
	default:
		return ""
	}
}
