package http_test

import (
	"io"
	"net/url"
	"syscall"
	"testing"
	"time"

	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

const (
	benchBytes  = 512 << 20
	latency     = 20 * time.Millisecond
	networkRate = 100e6 // bytes per second
	perAnswer   = 20e6
)

// BenchmarkRead reads an object from servers of several kinds to its end, and, by turns and in the same run, the way
// that it is compared with. A wall-ratio is ours to that one's time, or to the time that the network alone needs; of the
// processor's time the server's is a part. bytes-ratio is what the server sent to what was read.
func BenchmarkRead(b *testing.B) {
	shaped := func(perSecond int64) float64 { return float64(benchBytes) / float64(perSecond) }
	for name, test := range map[string]struct {
		server sourcetest.Behaviour
		versus sourcetest.Behaviour // with one connection
		bound  float64              // seconds that the network needs; 0: the comparison is with versus
	}{
		"loopback, to one stream":                   {},
		"20 ms for each request, to none":           {server: sourcetest.Behaviour{Delay: latency}},
		"100 MB/s, to the network":                  {server: sourcetest.Behaviour{TotalBytesPerSecond: networkRate}, bound: shaped(networkRate)},
		"100 MB/s and 20 ms, to the network":        {server: sourcetest.Behaviour{TotalBytesPerSecond: networkRate, Delay: latency}, bound: shaped(networkRate)},
		"20 MB/s for each answer, to one stream":    {server: sourcetest.Behaviour{BytesPerSecond: perAnswer}, bound: shaped(perAnswer)},
		"20 MB/s for each and 20 ms, to one stream": {server: sourcetest.Behaviour{BytesPerSecond: perAnswer, Delay: latency}, bound: shaped(perAnswer)},
	} {
		b.Run(name, func(b *testing.B) {
			test.server.Content = make([]byte, benchBytes)
			test.versus.Content = test.server.Content
			server, versus := sourcetest.Serve(b, test.server), sourcetest.Serve(b, test.versus)
			var ours, theirs spent
			for b.Loop() {
				ours.add(b, func() { readOnce(b, server.URL, 0) })
				if test.bound > 0 {
					theirs.wall += test.bound
					continue
				}
				b.StopTimer()
				theirs.add(b, func() { readOnce(b, versus.URL, 1) })
				b.StartTimer()
			}
			b.ReportMetric(ours.wall/theirs.wall, "wall-ratio")
			b.ReportMetric(float64(server.Sent())/float64(b.N)/benchBytes, "bytes-ratio")
			if test.bound == 0 {
				b.ReportMetric(ours.cpu/theirs.cpu, "cpu-ratio")
			}
		})
	}
}

// spent is time that was spent, in seconds. The processor's is this process's, the server included.
type spent struct{ wall, cpu float64 }

func (s *spent) add(b *testing.B, f func()) {
	cpu := func() float64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
	}
	wallBefore, cpuBefore := time.Now(), cpu()
	f()
	s.wall += time.Since(wallBefore).Seconds()
	s.cpu += cpu() - cpuBefore
}

// readOnce reads an object over some connections; 0: as many as by default.
func readOnce(b *testing.B, from string, connections int) {
	s, err := http.New(http.Options{URL: from, Connections: connections, Proxy: func(*url.URL) (*url.URL, error) { return nil, nil }})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Describe(b.Context()); err != nil {
		b.Fatal(err)
	}
	r, err := s.Open(b.Context(), 0, -1)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 256<<10)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, buf)
	if err != nil || n != benchBytes {
		b.Fatalf("%d bytes, %v", n, err)
	}
}
