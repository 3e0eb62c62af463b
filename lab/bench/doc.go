// Package bench measures what vmdisk is for: how long it takes, and what it costs, to fill a disk from an image. It
// runs "vmdisk convert" as it is released and, alternating with it in the same run, what others would do: CDI's path
// (download to a scratch file, then qemu-img convert), qemu-img alone, zstd alone. Only the ratios say something: the
// seconds are this machine's, today.
//
// The package is an outsider. It sees vmdisk as a program and must not import anything under internal/.
package bench
