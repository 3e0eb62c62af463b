// Package cause reads the texts that Kubernetes gives where it gives no codes: refusals by quota and admission, and the
// complaints of provisioners, kubelets and the scheduler. It is the only place that matches such texts.
package cause

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Refusal is why the API server said no.
type Refusal struct {
	// Quota is set where a quota is the reason.
	Quota *Quota
	// Sentence tells the object's owner what happened and what to do.
	Sentence string
}

// Quota is what a quota's refusal says. Asked, Used and Hard are lists such as "requests.storage=20Gi".
type Quota struct {
	Name, Asked, Used, Hard string
}

// quotaText is the refusal of the ResourceQuota admission plugin of Kubernetes.
var quotaText = regexp.MustCompile(`exceeded quota: ([^,]+), requested: (.+?), used: (.+?), limited: (.+)$`)

// quotaMissing is the same plugin's refusal of a pod that leaves out what a quota counts.
var quotaMissing = regexp.MustCompile(`failed quota: ([^:]+): must specify (.+)$`)

// OfRefusal reads the API server's words. What says what was refused, such as "the claim".
func OfRefusal(what, text string) Refusal {
	if m := quotaText.FindStringSubmatch(text); m != nil {
		q := Quota{Name: m[1], Asked: m[2], Used: m[3], Hard: m[4]}
		return Refusal{Quota: &q, Sentence: fmt.Sprintf(
			"quota %q has no room for %s: it asks %s, used are %s of %s; it goes on by itself once the quota is raised or something else is deleted",
			q.Name, what, q.Asked, q.Used, q.Hard)}
	}
	if m := quotaMissing.FindStringSubmatch(text); m != nil {
		return Refusal{Sentence: fmt.Sprintf(
			"quota %q wants every pod to say its %s, and the worker doesn't: set podResourceRequirements in the CDI object's config", m[1], m[2])}
	}
	return Refusal{Sentence: fmt.Sprintf("the API server refused %s: %s", what, strings.TrimSpace(text))}
}

// Complaint puts a Warning event about a claim or a worker into one line: what the component said, without the addresses of objects
// that it repeats.
func Complaint(reason, message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if m := rpcText.FindStringSubmatch(message); m != nil {
		message = m[2]
	}
	if m := missingText.FindStringSubmatch(message); m != nil {
		return m[1] + " in the disk's namespace: create it, and the import goes on by itself"
	}
	message = shortened(message)
	switch reason {
	case "ProvisioningFailed":
		return "the storage driver could not make the volume: " + message
	case "FailedMount", "FailedMapVolume":
		return "the node could not mount the worker's volumes: " + message
	case "FailedAttachVolume":
		return "the volume could not be attached to the worker's node: " + message
	case "FailedScheduling":
		return "no node takes the worker: " + message
	case "FailedBinding":
		return "the claim can't be bound: " + message
	default:
		return message
	}
}

// shortened cuts a message of more than 400 bytes behind a word, or within one if it is very long.
func shortened(message string) string {
	const longest = 400
	if len(message) <= longest {
		return message
	}
	end := strings.LastIndex(message[:longest], " ") + 1
	if end < longest/2 {
		for end = longest; !utf8.RuneStart(message[end]); end-- {
		}
	}
	return message[:end] + "…"
}

// Passing says whether a complaint is one that Kubernetes makes on the way and withdraws by itself: a node asks for a claim a moment before it
// is allowed to, or two components change an object at once.
func Passing(message string) bool {
	return strings.Contains(message, "no relationship found between node") || strings.Contains(message, "the object has been modified")
}

// missingText is how the kubelet says that what a pod is to mount doesn't exist.
var missingText = regexp.MustCompile(`((?:configmap|secret) "[^"]+" not found)$`)

// rpcText is how the CSI sidecars print a gRPC status: the code and the driver's own words.
var rpcText = regexp.MustCompile(`rpc error: code = (\w+) desc = (.+)$`)

// tryText is what WithTry adds.
var tryText = regexp.MustCompile(` \(attempt \d+; the next try is at [^)]*\)$`)

// WithTry adds to an error which attempt it ended, and when the next follows.
func WithTry(message string, attempt int32, next time.Time) string {
	return fmt.Sprintf("%s (attempt %d; the next try is at %s)", message, attempt, next.UTC().Format("15:04:05 MST"))
}

// WithoutTry takes away what WithTry added, so that the same error is the same text at each attempt.
func WithoutTry(message string) string { return tryText.ReplaceAllString(message, "") }
