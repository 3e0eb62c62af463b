// Package job is the contract between vmdisk's two halves. The control plane hands a worker one Spec, the worker
// hands back one Result, and between the two it prints Progress lines. Nothing else passes between them.
//
// The package knows nothing of Kubernetes and nothing of disk formats, so that both halves can import it.
package job

import (
	"encoding/json"
	"fmt"
)

// Version is the version of Spec and Result. A worker refuses a Spec of another version.
const Version = 1

// SpecEnv is the environment variable in which a worker finds its Spec, as JSON.
const SpecEnv = "VMDISK_JOB"

// ResultPath is where a worker writes its Result: the pod's termination message. The kubelet keeps 4 KiB of it.
const ResultPath = "/dev/termination-log"

// MaxResult is the size in bytes that an encoded Result never exceeds.
const MaxResult = 2048

// Spec is everything that a worker is told.
type Spec struct {
	Version int `json:"version"`
	// Disk names the disk in messages: "namespace/name".
	Disk string `json:"disk"`
	// Attempt counts from 1; it only appears in messages.
	Attempt int    `json:"attempt"`
	Source  Source `json:"source"`
	Target  Target `json:"target"`
	// Grow: there is no source. The disk that is on the target, a file, is made as long as the target's size; what it holds stays.
	Grow bool `json:"grow,omitempty"`
	// Checkpoint is the newest one that an earlier attempt for the same claim has told, to go on from; empty for none.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Egress bounds which addresses the worker connects to; nil: all are reached, as far as the network lets it.
	Egress *Egress `json:"egress,omitempty"`
	// PatienceSeconds is how long nothing may move before the worker gives up; 0: it never does.
	PatienceSeconds int64 `json:"patienceSeconds,omitempty"`
}

// Source says where the bytes come from. Exactly one member is set.
type Source struct {
	Blank  *Blank  `json:"blank,omitempty"`
	HTTP   *HTTP   `json:"http,omitempty"`
	Volume *Volume `json:"volume,omitempty"`
}

// Blank is an empty disk: it reads as zeros.
type Blank struct{}

// HTTP is an image behind an http or https URL. Secrets and certificates reach the worker as mounted files.
type HTTP struct {
	URL string `json:"url"`
	// Checksum is "algorithm:hex" over the bytes as served; md5, sha1, sha256 or sha512. Empty: not checked.
	Checksum string `json:"checksum,omitempty"`
	// Headers are extra header lines, "Name: value".
	Headers []string `json:"headers,omitempty"`
	// HeaderDirs are directories in which every regular file holds one header line.
	HeaderDirs []string `json:"headerDirs,omitempty"`
	// CredentialsDir holds accessKeyId and secretKey, the user and password for basic authentication.
	CredentialsDir string `json:"credentialsDir,omitempty"`
	// CADir holds PEM files with certificate authorities that are trusted besides the system's own.
	CADir string `json:"caDir,omitempty"`
	// InsecureSkipVerify turns certificate checks off.
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// Volume is another disk, on a volume that is mounted into the worker. It is only ever read, and always raw: what it holds is a guest's, who
// could write anything that looks like an image's header.
type Volume struct {
	Kind Kind `json:"kind"`
	// Path is the disk's file, or the block device.
	Path string `json:"path"`
	// SizeBytes is how long the disk is: what lies behind, on a device, is none of it. 0: as long as the file or the device.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Version changes whenever the disk's bytes may have changed. Empty: nobody knows, and an attempt that reads a block device can't be gone on
	// with. A file tells by itself.
	Version string `json:"version,omitempty"`
}

// Kind is the kind of volume that a disk lies on.
type Kind string

// The kinds of volume.
const (
	// File is a disk image file on a filesystem volume.
	File Kind = "file"
	// Block is a raw block device.
	Block Kind = "block"
)

// Target says where the disk's bytes go.
type Target struct {
	Kind Kind `json:"kind"`
	// Path is the file to make, or the block device.
	Path string `json:"path"`
	// SizeBytes is the size that the guest will see. A file is made exactly that long; a device must have at least
	// as many bytes.
	SizeBytes int64 `json:"sizeBytes"`
	// AllowSmaller lets a file shrink to what its filesystem can hold, as a claim written without the filesystem's
	// overhead in mind needs. The image must still fit.
	AllowSmaller bool `json:"allowSmaller,omitempty"`
	// Preallocate asks that every byte of the disk has its space allocated.
	Preallocate bool `json:"preallocate,omitempty"`
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes. What follows each one is the control plane's decision, but the worker knows best which it is.
const (
	// Succeeded: the disk's bytes are on stable storage.
	Succeeded Outcome = "Succeeded"
	// Refused: these bytes can never become this disk. Trying again is of no use.
	Refused Outcome = "Refused"
	// SourceFailed: the source did not deliver, and may at another time.
	SourceFailed Outcome = "SourceFailed"
	// TargetFailed: the volume did not take the bytes, and may once its environment is mended.
	TargetFailed Outcome = "TargetFailed"
	// Interrupted: the worker was told to stop.
	Interrupted Outcome = "Interrupted"
	// Broken: the worker was asked for something that it cannot do, which is a fault of vmdisk or its installation.
	Broken Outcome = "Broken"
)

// InternalError is the Reason of a worker that failed by a fault of its own.
const InternalError = "InternalError"

// Result is everything that a worker has to say at its end.
type Result struct {
	Version int     `json:"version"`
	Outcome Outcome `json:"outcome"`
	// Reason is one CamelCase word, stable across versions: "NotFound", "ChecksumMismatch", "BackingFile", …
	Reason string `json:"reason,omitempty"`
	// Message is one sentence for the disk's owner. It names the source and says what to do. It holds no secret.
	Message string `json:"message,omitempty"`
	// Format is the image's format as detected: "raw", "qcow2", …
	Format string `json:"format,omitempty"`
	// VirtualBytes is the size of the disk inside the image.
	VirtualBytes int64 `json:"virtualBytes,omitempty"`
	// ReadBytes were taken from the source, WrittenBytes were written to the volume.
	ReadBytes    int64 `json:"readBytes,omitempty"`
	WrittenBytes int64 `json:"writtenBytes,omitempty"`
	// RetryAfterSeconds is how long the source asked to be left alone (RFC 9110, section 10.2.3); 0: it did not say.
	RetryAfterSeconds int64 `json:"retryAfterSeconds,omitempty"`
	// Checkpoint is how far the attempt has come, for the next one's Spec, in the worker's own words: nobody else reads it. It is
	// shorter than a KiB. Empty where nothing can be gone on from.
	Checkpoint string `json:"checkpoint,omitempty"`
	// ResumedAt is the offset in the image where an earlier attempt was gone on with; 0: it began at the beginning.
	ResumedAt int64 `json:"resumedAt,omitempty"`
	// StartsOver says why the Spec's Checkpoint can't be gone on from. The volume was not changed then: a worker that has a
	// checkpoint never clears it, since the checkpoint must be forgotten before. The next attempt gets none.
	StartsOver string `json:"startsOver,omitempty"`
	// ContentHash names the content of the disk inside the image, "sha256-4MiB:hex": SHA-256 over the SHA-256 of each 4 MiB.
	ContentHash string `json:"contentHash,omitempty"`
}

// Progress is one line of a worker's log.
type Progress struct {
	// DoneBytes of TotalBytes are through. The unit is the source's bytes where its length is known, otherwise the
	// disk's. TotalBytes 0: not known yet.
	DoneBytes  int64 `json:"doneBytes"`
	TotalBytes int64 `json:"totalBytes"`
	// Checkpoint is the newest one; see Result.
	Checkpoint string `json:"checkpoint,omitempty"`
	// ResumedAt is where an earlier attempt is gone on with; see Result.
	ResumedAt int64 `json:"resumedAt,omitempty"`
}

// progressLine is how a Progress stands in the log, so that it can't be taken for anything else.
type progressLine struct {
	Progress *Progress `json:"vmdiskProgress"`
}

// Line is the progress as one line of JSON, without a newline.
func (p Progress) Line() string {
	b, err := json.Marshal(progressLine{&p})
	if err != nil {
		panic(err) // integers and a string always encode
	}
	return string(b)
}

// ParseProgress reads a log line. It answers false for a line that is not progress.
func ParseProgress(line string) (Progress, bool) {
	var l progressLine
	if json.Unmarshal([]byte(line), &l) != nil || l.Progress == nil {
		return Progress{}, false
	}
	return *l.Progress, true
}

// Percent is the progress from 0 to 100; false while the total is not known.
func (p Progress) Percent() (float64, bool) {
	if p.TotalBytes <= 0 || p.DoneBytes < 0 {
		return 0, false
	}
	return min(100, 100*float64(p.DoneBytes)/float64(p.TotalBytes)), true
}

// Encode is the Spec as JSON, ready for SpecEnv.
func (s Spec) Encode() (string, error) {
	s.Version = Version
	b, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode job: %w", err)
	}
	return string(b), nil
}

// ParseSpec reads what Encode wrote, and refuses what this version can't do.
func ParseSpec(text string) (Spec, error) {
	var s Spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Spec{}, fmt.Errorf("read job from %s: %w", SpecEnv, err)
	}
	if s.Version != Version {
		return Spec{}, fmt.Errorf("job has version %d, but this worker knows version %d: the controller and the worker image are of different releases", s.Version, Version)
	}
	return s, nil
}

// Encode is the Result as JSON of at most MaxResult bytes; a longer message is cut, with "…" at the cut.
func (r Result) Encode() []byte {
	r.Version = Version
	for {
		b, err := json.Marshal(r)
		if err != nil {
			panic(err) // strings and integers always encode
		}
		if len(b) <= MaxResult {
			return b
		}
		r.Message = cut(r.Message, len(r.Message)-(len(b)-MaxResult)-len("…"))
	}
}

// ParseResult reads a termination message. It answers false where the worker left none, as when it was killed.
func ParseResult(text string) (Result, bool) {
	var r Result
	if json.Unmarshal([]byte(text), &r) != nil || r.Outcome == "" {
		return Result{}, false
	}
	return r, true
}

// cut shortens s to at most n bytes at the start of a rune, and marks the cut.
func cut(s string, n int) string {
	n = max(0, min(n, len(s)))
	for n > 0 && n < len(s) && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
