package image

import "fmt"

// Reason is one stable word for why an image was refused.
type Reason string

// The reasons.
const (
	// BackingFile: the image holds only differences to another file, which is never opened.
	BackingFile Reason = "BackingFile"
	// DataFile: the image's data lies in another file, which is never opened.
	DataFile Reason = "DataFile"
	// Encrypted: the image is encrypted.
	Encrypted Reason = "Encrypted"
	// CorruptImage: the image contradicts its format or itself, or says of itself that it is corrupt.
	CorruptImage Reason = "CorruptImage"
	// Truncated: the image ends before something that it refers to.
	Truncated Reason = "Truncated"
	// UnsupportedFormat: a known format, or a known format's feature, that this version doesn't read.
	UnsupportedFormat Reason = "UnsupportedFormat"
	// NotADisk: the bytes are not a disk at all.
	NotADisk Reason = "NotADisk"
	// TooLarge: the disk, or one of the image's tables, is above a limit.
	TooLarge Reason = "TooLarge"
	// NeedsRandomAccess: the image's layout can't be decoded in one forward pass within the memory limit, and the
	// source can't be read a second time.
	NeedsRandomAccess Reason = "NeedsRandomAccess"
)

// Refused says that an image can never be read by this version, whoever tries it again.
type Refused struct {
	Reason Reason
	// Message is a sentence for the person who chose the image: what is wrong and what to do.
	Message string
}

// Error implements error.
func (r *Refused) Error() string { return r.Message }

// Refuse makes a *Refused from a format.
func Refuse(reason Reason, format string, args ...any) error {
	return &Refused{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Corrupt refuses an image that contradicts its format. The message says how, as the end of a sentence.
func Corrupt(f Format, message string, args ...any) error {
	return Refuse(CorruptImage, "the %s image is corrupt: %s", f, fmt.Sprintf(message, args...))
}

// CutOff refuses an image that ends before something which it refers to, n bytes at offset.
func CutOff(f Format, what string, offset, n int64) error {
	return Refuse(Truncated, "the %s image ends before %s, %d bytes at offset %d: it was cut off, as an interrupted upload does", f, what, n, offset)
}

// NeedsRandom refuses a layout that one pass can't decode without random access.
func NeedsRandom(f Format) error {
	return Refuse(NeedsRandomAccess, "the %s image has its tables behind the data that they describe, or more of them than fit the memory, and its source can't be read at any place: serve it from a server that answers range requests, or rewrite it with 'qemu-img convert -O qcow2 IN OUT'", f)
}
