package transfer

import "bytes"

// blockSize is the unit in which zeros are looked for, in bytes, aligned on the disk. Filesystems allocate in it.
const blockSize = 4 << 10

// isZero reports whether all of p is zero: its first byte is, and each byte equals the one before it. The comparison is
// the runtime's, which is much faster than a loop.
func isZero(p []byte) bool {
	return len(p) == 0 || p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1])
}

// dataRuns calls f for each run of p that has something other than zeros in it, from the first of its blocks to the end
// of its last. offset is where p belongs on the disk.
func dataRuns(p []byte, offset int64, f func(from, to int) error) error {
	run := -1 // where the current run begins
	for at := 0; at < len(p); {
		n := min(blockSize-int((offset+int64(at))%blockSize), len(p)-at)
		zero := isZero(p[at : at+n])
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
