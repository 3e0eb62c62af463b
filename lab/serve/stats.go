package serve

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Stat is what was asked and sent for one path, since the start or the last reset.
type Stat struct {
	// File is the path without its behaviours.
	File string `json:"file"`
	// Requests counts all requests, Heads those that were HEAD.
	Requests int `json:"requests"`
	Heads    int `json:"heads,omitempty"`
	// Bytes is what was sent of bodies, error pages included.
	Bytes int64 `json:"bytes"`
	// Ranges holds the Range headers as they came, the first maxRanges of them.
	Ranges []string `json:"ranges,omitempty"`
	// Statuses counts the answers by their status.
	Statuses map[string]int `json:"statuses"`
}

// Stats are the answer of /stats: one Stat for each path that was asked for.
type Stats map[string]Stat

const maxRanges = 10000

// countRequest counts the request and returns its number among those for its path, from 1.
func (s *Server) countRequest(r *http.Request, p plan) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	stat := s.statLocked(r.URL.Path)
	stat.File = p.rest
	stat.Requests++
	if r.Method == http.MethodHead {
		stat.Heads++
	}
	if asked := r.Header.Get("Range"); asked != "" && len(stat.Ranges) < maxRanges {
		stat.Ranges = append(stat.Ranges, asked)
	}
	return stat.Requests
}

// counter counts an answer while it is sent, so that a slow one shows.
type counter struct {
	status func(status int)
	bytes  func(n int64)
}

func (s *Server) counter(path string) counter {
	change := func(do func(*Stat)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		do(s.statLocked(path))
	}
	return counter{
		status: func(status int) { change(func(stat *Stat) { stat.Statuses[strconv.Itoa(status)]++ }) },
		bytes:  func(n int64) { change(func(stat *Stat) { stat.Bytes += n }) },
	}
}

func (s *Server) statLocked(path string) *Stat {
	stat, ok := s.stats[path]
	if !ok {
		stat = &Stat{Statuses: map[string]int{}}
		s.stats[path] = stat
	}
	return stat
}

func (s *Server) writeStats(w http.ResponseWriter) {
	s.mu.Lock()
	raw, err := json.MarshalIndent(s.stats, "", "  ")
	s.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	send(w, raw)
}
