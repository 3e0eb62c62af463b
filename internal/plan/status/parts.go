package status

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/cause"
)

// about is what the disk is: its size, its class, where its bytes come from.
func (s Seen) about() string {
	size, class := "", ""
	switch {
	case s.Disk != nil:
		size, class = s.Disk.Status.Size, cmp.Or(s.Disk.Status.StorageClass, s.Disk.Spec.StorageClass)
		if size == "" && s.Disk.Spec.Storage != nil {
			size = s.Disk.Spec.Storage.String()
		}
	case s.Claim != nil:
		q := s.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
		size = q.String()
		if s.Claim.Spec.StorageClassName != nil {
			class = *s.Claim.Spec.StorageClassName
		}
	}
	var words []string
	if size != "" {
		words = append(words, size)
	}
	if class != "" {
		words = append(words, "in StorageClass "+class)
	}
	if from := s.from(); from != "" {
		words = append(words, from)
	}
	return strings.Join(words, " ")
}

// from is where the bytes come from.
func (s Seen) from() string {
	switch {
	case s.Disk != nil && s.Disk.Spec.Source == nil:
		return "blank"
	case s.Disk != nil && s.Disk.Spec.Source.HTTP != nil:
		return "from " + public(s.Disk.Spec.Source.HTTP.URL)
	case s.Disk != nil && s.Disk.Spec.Source.Image != nil:
		return "from image " + s.Disk.Spec.Source.Image.Name
	case s.Disk != nil && s.Disk.Spec.Source.Disk != nil:
		return "from disk " + s.Disk.Spec.Source.Disk.Name
	case s.Disk != nil || s.DataVolume == nil || s.DataVolume.Spec.Source == nil:
		return ""
	case s.DataVolume.Spec.Source.HTTP != nil:
		return "from " + public(s.DataVolume.Spec.Source.HTTP.URL)
	case s.DataVolume.Spec.Source.Blank != nil:
		return "blank"
	default:
		return ""
	}
}

// public is a URL without what may be secret in it: its user and its query, which signs some URLs.
func public(url string) string {
	url, _, _ = strings.Cut(url, "#")
	url, query, signed := strings.Cut(url, "?")
	if signed && query != "" {
		url += "?…"
	}
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(host, "@"); at >= 0 {
		host = host[at+1:]
	}
	return scheme + "://" + host + "/" + path
}

// parts are the objects that exist.
func (s Seen) parts() []Part {
	var parts []Part
	if dv := s.DataVolume; dv != nil {
		is := cmp.Or(string(dv.Status.Phase), "no phase yet")
		if s.Disk != nil && !s.owned() {
			is += ", not this disk's"
		}
		parts = append(parts, Part{"DataVolume", dv.Name, is})
	}
	if s.Claim != nil {
		parts = append(parts, Part{"claim", s.Claim.Name, claimWords(s.Claim)})
	}
	if s.Worker != nil {
		parts = append(parts, Part{"worker", s.Worker.Name, s.workerWords()})
	}
	return parts
}

func claimWords(c *corev1.PersistentVolumeClaim) string {
	q := c.Spec.Resources.Requests[corev1.ResourceStorage]
	words := []string{cmp.Or(string(c.Status.Phase), "Pending"), q.String()}
	if c.Spec.VolumeMode != nil {
		words = append(words, string(*c.Spec.VolumeMode))
	}
	for _, m := range c.Spec.AccessModes {
		words = append(words, string(m))
	}
	if c.Spec.VolumeName != "" {
		words = append(words, "volume "+c.Spec.VolumeName)
	}
	return strings.Join(append(words, leavingWord(c)...), ", ")
}

func (s Seen) workerWords() string {
	w := s.Worker
	words := []string{cmp.Or(string(w.Status.Phase), "Pending")}
	if w.Spec.NodeName != "" {
		words[0] += " on " + w.Spec.NodeName
	}
	if began := s.began(w.CreationTimestamp.Time); !began.IsZero() {
		words[0] += " for " + duration.HumanDuration(s.At.Sub(began))
	}
	if attempt := w.Labels[v1alpha1.AttemptLabel]; attempt != "" {
		words = append(words, "attempt "+attempt)
	}
	return strings.Join(append(words, leavingWord(w)...), ", ")
}

func leavingWord(o metav1.Object) []string {
	if o.GetDeletionTimestamp() == nil {
		return nil
	}
	return []string{"being deleted"}
}

// mostEvents is how many events a screen has room for.
const mostEvents = 5

// lastEvents are the newest events, each kind of them once.
func (s Seen) lastEvents() []Event {
	var events []Event
	for _, e := range slices.Backward(s.Events) {
		told := Event{At: cause.LastSeen(e), Type: e.Type, Reason: e.Reason, Message: strings.Join(strings.Fields(e.Message), " "), Count: count(e)}
		same := func(o Event) bool { return o.Reason == told.Reason && o.Message == told.Message }
		if slices.ContainsFunc(events, same) {
			continue
		}
		if events = append(events, told); len(events) == mostEvents {
			break
		}
	}
	return events
}

// count is how often an event happened. The two event APIs keep that in different fields.
func count(e corev1.Event) int32 {
	if e.Series != nil {
		return max(1, e.Series.Count)
	}
	return max(1, e.Count)
}
