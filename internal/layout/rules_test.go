package layout_test

import "strings"

// module is the path of this module.
const module = "vmdisk.io/vmdisk"

// rule says what the files of some packages may import. The first rule whose packages match a file's decides.
type rule struct {
	// packages are directories below the module's root; "x/*" is each directory below x, "x/..." also x itself.
	packages []string
	// ours are the packages of this module that may be imported, in the same notation.
	ours []string
	// others are the prefixes of other modules' packages that may be imported, besides the standard library's;
	// nil allows all.
	others []string
	// never are packages, with all that lies below them, that must not be imported whatever else is allowed.
	never []string
	// because is the reason, for whoever broke the rule.
	because string
}

// kubernetesTypes are the modules that hold types and no client.
func kubernetesTypes() []string {
	return []string{"k8s.io/api", "k8s.io/apimachinery", "kubevirt.io/containerized-data-importer-api", "kubevirt.io/controller-lifecycle-operator-sdk/api"}
}

// effects are the packages through which a function could do something, or depend on something, that its arguments
// don't show.
func effects() []string {
	return []string{
		"context", "os", "net", "syscall", "log", "math/rand", "crypto/rand", "database/sql", "unsafe",
		"k8s.io/apimachinery/pkg/util/wait",
	}
}

func rules() []rule {
	return []rule{
		{
			packages: []string{"internal/job/...", "internal/stream/...", "internal/image/..."},
			ours:     []string{"internal/job", "internal/stream/...", "internal/image/..."},
			others:   []string{"github.com/klauspost/compress"},
			because: "image, stream and job are the standard library and decompressors only: they handle untrusted bytes, " +
				"and both halves build on them",
		},
		{
			packages: []string{"internal/source/...", "internal/target/..."},
			ours:     []string{"internal/job", "internal/stream/...", "internal/image/...", "internal/source/...", "internal/target/..."},
			others:   []string{"golang.org/x"},
			because: "source and target know where bytes come from and go to, not who asked for them nor what Kubernetes is: " +
				"vmdisk convert on a laptop is the code that runs in the pod",
		},
		{
			packages: []string{"internal/transfer/...", "internal/worker/..."},
			ours: []string{
				"internal/job", "internal/stream/...", "internal/image/...", "internal/source/...", "internal/target/...",
				"internal/transfer/...", "internal/worker/...",
			},
			others: []string{"golang.org/x"},
			because: "the worker's half meets the control plane in internal/job only, and knows nothing of k8s.io: " +
				"vmdisk convert on a laptop is the code that runs in the pod",
		},
		{
			packages: []string{"internal/action/..."},
			ours:     []string{"api/...", "internal/job", "internal/action/..."},
			others:   kubernetesTypes(),
			never:    effects(),
			because:  "an action is a value that says what is to be done; only internal/kube does it",
		},
		{
			packages: []string{"internal/pod/..."},
			ours:     []string{"api/...", "internal/job", "internal/pod/..."},
			others:   kubernetesTypes(),
			never:    effects(),
			because:  "pod renders a job as a corev1.Pod from its arguments alone, so that a table test can compare the whole",
		},
		{
			packages: []string{"internal/plan/clone/linstor"},
			ours:     []string{"internal/plan/clone/linstor"},
			others:   append(kubernetesTypes(), "go.yaml.in/yaml/v3"),
			never:    effects(),
			because:  "it reads a class's parameters as linstor-csi does, of which one is YAML; what follows from them is internal/plan/clone's",
		},
		{
			packages: []string{"internal/plan/..."},
			ours:     []string{"api/...", "internal/job", "internal/action/...", "internal/pod/...", "internal/plan/..."},
			others:   kubernetesTypes(),
			never:    effects(),
			because: "plan decides and does nothing: without a context a function cannot do I/O, so a reviewer need look no " +
				"further. Read in the controller, pass the time in, return actions",
		},
		{
			packages: []string{"internal/kube/..."},
			ours:     []string{"api/...", "internal/job", "internal/action/...", "internal/pod/...", "internal/plan/...", "internal/kube/..."},
			because:  "kube applies decisions and takes none: it is below the controllers",
		},
		{
			packages: []string{"internal/controllers"},
			ours: []string{
				"api/...", "internal/job", "internal/action/...", "internal/pod/...", "internal/plan/...", "internal/kube/...",
				"internal/controllers/...",
			},
			because: "controllers.go is the list of controllers; the data plane is reached through a job only",
		},
		{
			packages: []string{"internal/controllers/*"},
			ours:     []string{"api/...", "internal/job", "internal/action/...", "internal/pod/...", "internal/plan/...", "internal/kube/..."},
			because: "controllers don't import each other: they meet in the objects that they read and write. What two of " +
				"them decide alike belongs in internal/plan. The data plane is reached through a job only, and the cluster is changed through internal/kube only",
			never: []string{"k8s.io/client-go/kubernetes"},
		},
		{
			packages: []string{"internal/admission/..."},
			ours: []string{
				"api/...", "internal/job", "internal/action/...", "internal/pod/...", "internal/plan/...", "internal/kube/...",
				"internal/admission/...",
			},
			never:   []string{"k8s.io/client-go/kubernetes"},
			because: "admission stands beside the controllers, on the same floor, and the cluster is changed through internal/kube only",
		},
		{
			packages: []string{"internal/metrics"},
			ours:     []string{"api/...", "internal/job", "internal/action/...", "internal/pod/...", "internal/plan/...", "internal/metrics"},
			because:  "metrics names what plan measures; the controllers don't know who counts",
		},
		{
			packages: []string{"internal/cli/..."},
			ours:     []string{"api/...", "config", "internal/..."},
			because:  "commands put the parts together; the lab is no part of the product",
		},
		{
			packages: []string{"internal/layout"},
			because:  "layout holds no code",
		},
		{
			packages: []string{"cmd/*"},
			ours:     []string{"internal/cli"},
			others:   []string{},
			because:  "main calls internal/cli and ends with its answer; what a command does belongs there, where tests reach it",
		},
		{
			packages: []string{"api/*"},
			ours:     []string{"api/*"},
			others:   kubernetesTypes(),
			because:  "the API is types and names, which other programs import, too",
		},
		{
			packages: []string{"config/..."},
			ours:     []string{"config/..."},
			others:   kubernetesTypes(),
			because:  "config is the manifests, for whoever applies them",
		},
		{
			packages: []string{"lab/..."},
			ours:     []string{"..."},
			because:  "lab may import anything",
		},
	}
}

// covers says whether one of the patterns covers a directory below the module's root.
func covers(patterns []string, dir string) bool {
	for _, pattern := range patterns {
		if pattern == "..." || pattern == dir {
			return true
		}
		if base, ok := strings.CutSuffix(pattern, "/..."); ok && (dir == base || strings.HasPrefix(dir, base+"/")) {
			return true
		}
		if base, ok := strings.CutSuffix(pattern, "/*"); ok && strings.HasPrefix(dir, base+"/") {
			return true
		}
	}
	return false
}

// below says whether a path is one of the prefixes or lies below one of them.
func below(prefixes []string, path string) bool {
	for _, prefix := range prefixes {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}
