// Package stream has readers of one job each: look ahead, check, count, limit. They wrap an io.Reader and are composed
// where a transfer is put together, so that the order in which they work can be read there.
//
// The package knows nothing of disk images, of where bytes come from, or of where they go.
package stream
