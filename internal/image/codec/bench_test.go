package codec

import (
	"math/rand/v2"
	"strings"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
)

// program is a cluster that compresses about as well as programs and documents do.
func program() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < 64<<10 {
		for range 8 {
			b.WriteString([]string{"return ", "error", "\x48\x89\x45", "func (x *", "\x00\x00\x00", "offset ", "};\n"}[r.IntN(7)])
		}
		for range 12 {
			b.WriteByte(byte(r.IntN(256)))
		}
	}
	return []byte(b.String()[:64<<10])
}

func BenchmarkDecode(b *testing.B) {
	cluster := program()
	for name, c := range map[string]struct {
		encoding image.Encoding
		stored   []byte
	}{
		"deflate": {image.Deflate, deflate(b, 6, cluster)},
		"zstd":    {image.Zstd, zstandard(b, cluster)},
	} {
		b.Run(name, func(b *testing.B) {
			var d Decoder
			out := make([]byte, len(cluster))
			b.SetBytes(int64(len(cluster)))
			b.ReportMetric(float64(len(cluster))/float64(len(c.stored)), "ratio")
			for b.Loop() {
				if err := d.Decode(out, c.encoding, c.stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
