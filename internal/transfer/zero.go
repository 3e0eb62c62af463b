package transfer

import "vmdisk.io/vmdisk/internal/image"

// blockSize is the unit in which zeros are looked for, in bytes, aligned on the disk. Filesystems allocate in it.
const blockSize = 4 << 10

// dataRuns calls f for each run of p that has something other than zeros in it, from the first of its blocks to the end
// of its last. offset is where p belongs on the disk.
func dataRuns(p []byte, offset int64, f func(from, to int) error) error {
	run := -1 // where the current run begins
	for at := 0; at < len(p); {
		n := min(blockSize-int((offset+int64(at))%blockSize), len(p)-at)
		zero := image.IsZero(p[at : at+n])
		if !zero && run < 0 {
			run = at
		}
		if zero && run >= 0 {
			if err := f(run, at); err != nil {
				return err
			}
			run = -1
		}
		at += n
	}
	if run < 0 {
		return nil
	}
	return f(run, len(p))
}
