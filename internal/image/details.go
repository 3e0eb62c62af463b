package image

// Details are what an image says of itself besides the disk in it. They are read from the header alone, also of an image
// that is refused.
type Details struct {
	// Variant is which kind of its format it is, in words.
	Variant string
	// Compression is how clusters are compressed where they are; empty where the format has none.
	Compression string
	// References are other files that it names. None of them is ever opened.
	References []Reference
}

// Reference is a file that an image names.
type Reference struct {
	// Kind is what the file would be to the image, such as "backing file".
	Kind string
	// Name is the file's name as the image has it, which may be anything.
	Name string
}
