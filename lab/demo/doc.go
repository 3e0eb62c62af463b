// Package demo shows vmdisk's main job on real input: it builds a bootable Debian cloud image, serves it over HTTPS to
// a tenant whose quota is exactly the disk's size, has vmdisk import it, and proves the outcome: the quota was never
// exceeded, the volume's bytes are those of qemu-img convert, and the disk boots to a login prompt.
//
// The pieces (Image, Boot, HashDisk) are useful to other tests and stand alone. The package is an outsider: it sees
// vmdisk through the Kubernetes API only and must not import anything under internal/.
package demo
