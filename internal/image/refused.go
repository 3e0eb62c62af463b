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
