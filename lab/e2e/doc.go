// Package e2e holds the scenarios that vmdisk is judged by, one test for each capability, in the lab: a real Kubernetes,
// real quotas and policies, real volumes. Run them with
//
//	go test -tags e2e ./lab/e2e/...
//
// They bring up the lab and the vmdisk of this clone first, where need be. Each scenario has a namespace of its own, as a
// tenant would, and knows vmdisk only as its users do: by its objects, and by the bytes on the volumes. It must not look
// into the controller or a worker, except to show their logs when it fails.
//
// E2E_STORIES names a directory that gets what `kubectl describe vmdisk` tells in each case that is meant to fail.
package e2e
