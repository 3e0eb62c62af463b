package deploy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

func TestARolloutIsComplete(t *testing.T) {
	tests := map[string]struct {
		status appsv1.DeploymentStatus
		want   bool
	}{
		"once all replicas are new and available, and no old one is left": {
			status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
			want:   true,
		},
		"not while the status speaks of an earlier generation": {
			status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
		},
		"not while a replica is missing": {
			status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
		},
		"not while a new replica is not available": {
			status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1},
		},
		"not while an old replica stands in for a new one": {
			status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 2},
		},
		"not before anything has happened": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}, Status: test.status}
			d.Generation = 3
			if got := complete(d); got != test.want {
				t.Errorf("complete = %v, want %v", got, test.want)
			}
		})
	}
}
