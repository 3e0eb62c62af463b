package control

import (
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"vmdisk.io/vmdisk/internal/job"
)

// serveLogs is the kubelet's server of logs. One worker in ten has a log that can't be read.
func serveLogs() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		hash := fnv.New32()
		_, _ = io.WriteString(hash, r.PathValue("pod")) // which never fails
		if hash.Sum32()%10 == 0 {
			http.Error(w, "the log is gone", http.StatusInternalServerError)
			return
		}
		now := time.Now()
		total := int64(time.Minute)
		fmt.Fprintf(w, "%s %s\n", now.UTC().Format(time.RFC3339Nano), job.Progress{DoneBytes: now.UnixNano() % total, TotalBytes: total}.Line())
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	return server
}

// addressOf is where a server listens.
func addressOf(s *httptest.Server) (address string, port int32, err error) {
	address, text, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		return "", 0, fmt.Errorf("find where logs are served: %w", err)
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return address, int32(n), err
}
