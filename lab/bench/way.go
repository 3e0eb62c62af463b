package bench

import (
	"path/filepath"
	"time"
)

// places are where one run finds and leaves things.
type places struct {
	vmdisk          string // the program
	lab             string // the lab's program, which is this one
	image           string // the image's file
	url             string // the same, over http
	scratch, target string // files that don't exist yet
}

// The ways' names, before what is special about their network.
const (
	vmdiskHTTP = "vmdisk, http"
	vmdiskFile = "vmdisk, file"
	cdiPath    = "CDI's path"
	qemuFile   = "qemu-img, file"
	zstdFile   = "zstd -d, file"
	xzFile     = "xz -d -T0, file"
)

// way is one way to fill a disk from an image.
type way struct {
	name    string
	image   string
	network network
	// imports is how many do it at the same time; 0 is one.
	imports int
	steps   func(p places) []pipeline
}

// ours is vmdisk reading from the server.
func ours(image string) way {
	return way{name: vmdiskHTTP, image: image, steps: func(p places) []pipeline { return convert(p, p.url) }}
}

// oursFile is vmdisk reading a local file.
func oursFile(image string) way {
	return way{name: vmdiskFile, image: image, steps: func(p places) []pipeline { return convert(p, p.image) }}
}

// convert is vmdisk's whole work: the target is on the storage when it ends.
func convert(p places, source string) []pipeline {
	return []pipeline{{{p.vmdisk, "convert", "--progress", "none", source, p.target}}}
}

// cdi is CDI's path: the image to a scratch file, unpacked on one core where it is packed, then qemu-img to the target.
// A raw disk gets to the scratch file with its holes.
func cdi(image string) way {
	return way{name: cdiPath, image: image, steps: func(p places) []pipeline {
		return []pipeline{
			download(p),
			{{"qemu-img", "convert", "-t", "writeback", "-O", "raw", p.scratch, p.target}},
			{{"sync", p.target}},
		}
	}}
}

// UnpackCommand is the lab's command that unpacks as CDI's importer does: on one core, with the libraries that it uses.
const UnpackCommand = "unpack"

// download is the first half of CDI's path.
func download(p places) pipeline {
	get := []string{"curl", "--silent", "--show-error", "--fail", p.url}
	switch filepath.Ext(p.image) {
	case ".raw":
		return pipeline{get, sparse(p.scratch)}
	case ".gz":
		return pipeline{get, {p.lab, UnpackCommand, "gzip"}, sparse(p.scratch)}
	case ".xz":
		return pipeline{get, {p.lab, UnpackCommand, "xz"}, sparse(p.scratch)}
	default:
		return pipeline{append(get, "--output", p.scratch)}
	}
}

// qemu is qemu-img alone, on the local file and with all that makes it fast.
func qemu(image string) way {
	return way{name: qemuFile, image: image, steps: func(p places) []pipeline {
		return []pipeline{
			{{"qemu-img", "convert", "-W", "-m", "16", "-O", "raw", p.image, p.target}},
			{{"sync", p.target}},
		}
	}}
}

// zstd is the zstd program alone, on the local file.
func zstd(image string) way {
	return way{name: zstdFile, image: image, steps: func(p places) []pipeline {
		return []pipeline{{{"zstd", "-q", "-d", p.image, "-o", p.target}}, {{"sync", p.target}}}
	}}
}

// xz is the xz program alone, on the local file and all cores.
func xz(image string) way {
	return way{name: xzFile, image: image, steps: func(p places) []pipeline {
		return []pipeline{{{"xz", "-dc", "-T0", p.image}, sparse(p.target)}, {{"sync", p.target}}}
	}}
}

// sparse writes a file with holes, in blocks as large as those that CDI's importer leaves.
func sparse(path string) []string {
	return []string{"dd", "status=none", "bs=32K", "iflag=fullblock", "conv=sparse", "of=" + path}
}

// late is a way with a server that takes its time before each answer.
func (w way) late() way {
	w.network = network{latency: latency}
	w.name += onLate
	return w
}

// limited is a way over a line that isn't fast.
func (w way) limited() way {
	w.network = network{bytesPerSecond: lineRate}
	w.name += onLimited
	return w
}

const (
	onLate    = ", 20 ms"
	onLimited = ", 100 MB/s"

	latency  = 20 * time.Millisecond
	lineRate = 100_000_000 // bytes per second
)
