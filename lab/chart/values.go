package chart

// replacement puts a template in the place of what a manifest says.
type replacement struct {
	// in is the manifest; everywhere: all of them, where it may be missing.
	in       string
	old, new string
}

const (
	everywhere     = ""
	namespaceFile  = "00-namespace.yaml"
	rolesFile      = "20-roles.yaml"
	controllerFile = "30-controller.yaml"
	cdiFile        = "40-cdi.yaml"
	admissionFile  = "50-admission.yaml"

	// The populator's.
	diskNamespaceFile = "10-namespace.yaml"
	networkFile       = "20-network.yaml"
	populatorFile     = "40-populator.yaml"
)

// What both Deployments have of the values.
const (
	pods = "      {{- with .Values.imagePullSecrets }}\n      imagePullSecrets: {{ toYaml . | nindent 6 }}\n      {{- end }}\n" +
		"      {{- with .Values.placement }}\n      {{- toYaml . | nindent 6 }}\n      {{- end }}\n"
	fixedImage, image     = "        image: vmdisk:latest\n        imagePullPolicy: IfNotPresent\n", "        image: {{ .Values.image }}\n        imagePullPolicy: {{ .Values.imagePullPolicy }}\n"
	fixedMetrics, metrics = "        ports:\n        - name: metrics\n          containerPort: 8080\n", "        ports:\n        {{- if .Values.metrics.enabled }}\n        - name: metrics\n          containerPort: 8080\n        {{- end }}\n"
)

// replacements are tried in their order.
func replacements() []replacement {
	return []replacement{
		{everywhere, "namespace: vmdisk\n", "namespace: {{ .Release.Namespace }}\n"},
		{admissionFile, "values: [vmdisk]", "values: [{{ .Release.Namespace }}]"},
		{admissionFile, "- name: datavolumes.vmdisk.io\n", "{{- if " + ours + " }}\n- name: datavolumes.vmdisk.io\n"},
		{admissionFile, "      path: /datavolumes\n      port: 443\n", "      path: /datavolumes\n      port: 443\n{{- end }}\n"},
		{controllerFile, "  replicas: 1\n", "  replicas: {{ .Values.replicas }}\n"},
		{controllerFile, "      serviceAccountName: vmdisk-controller\n", "      serviceAccountName: vmdisk-controller\n" + pods},
		{controllerFile, fixedImage, image},
		{controllerFile, "        - --worker-image=vmdisk:latest\n", "        - --worker-image={{ .Values.image }}\n        {{- include \"vmdisk.flags\" . | nindent 8 }}\n"},
		{controllerFile, fixedMetrics, metrics},
		{controllerFile, "        resources:\n          requests:\n            cpu: 50m\n            memory: 64Mi\n          limits:\n            memory: 512Mi\n", "        resources: {{ toYaml .Values.resources | nindent 10 }}\n"},
		{cdiFile, "  config:\n    featureGates: [HonorWaitForFirstConsumer]\n", "  config: {{ toYaml .Values.cdi.config | nindent 4 }}\n  {{- with .Values.cdi.workload }}\n  workload: {{ toYaml . | nindent 4 }}\n  {{- end }}\n" +
			"  {{- with .Values.cdi.cloneStrategyOverride }}\n  cloneStrategyOverride: {{ . }}\n  {{- end }}\n"},
		{everywhere, "namespace: vmdisk-populator\n", "namespace: {{ .Values.populator.namespace }}\n"},
		{diskNamespaceFile, "kind: Namespace\nmetadata:\n  name: vmdisk-populator\n", "kind: Namespace\nmetadata:\n  name: {{ .Values.populator.namespace }}\n"},
		{diskNamespaceFile, "  hard:\n    persistentvolumeclaims: \"4\"\n", "  hard: {{ toYaml .Values.populator.quota | nindent 4 }}\n"},
		{networkFile, "        - ff00::/8\n", "        - ff00::/8\n" +
			"  {{- with .Values.populator.egress.allow }}\n  - to:\n    {{- range . }}\n    - ipBlock:\n        cidr: {{ . }}\n    {{- end }}\n  {{- end }}\n" +
			"  {{- with .Values.populator.egress.to }}\n  - to: {{ toYaml . | nindent 4 }}\n  {{- end }}\n"},
		{populatorFile, "  replicas: 1\n", "  replicas: {{ .Values.populator.replicas }}\n"},
		{populatorFile, "      serviceAccountName: vmdisk-populator\n", "      serviceAccountName: vmdisk-populator\n" + pods},
		{populatorFile, fixedImage, image},
		{populatorFile, "        - --populator-namespace=vmdisk-populator\n", "        - --populator-namespace={{ .Values.populator.namespace }}\n        {{- include \"vmdisk.populatorFlags\" . | nindent 8 }}\n"},
		{populatorFile, fixedMetrics, metrics},
		{populatorFile, "        resources:\n          requests:\n            cpu: 20m\n            memory: 48Mi\n          limits:\n            memory: 256Mi\n", "        resources: {{ toYaml .Values.populator.resources | nindent 10 }}\n"},
	}
}

func alertReplacements() []replacement {
	return []replacement{
		{"", "  namespace: vmdisk\n", "  namespace: {{ .Release.Namespace }}\n"},
		{"", "    app.kubernetes.io/name: vmdisk\n", "    app.kubernetes.io/name: vmdisk\n    {{- with .Values.alerts.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n"},
	}
}

// condition says when a document of a manifest is installed: one that holds a text.
type condition struct {
	in, holds, when string
}

// With --engine=cdi CDI brings its own object, configuration, roles and webhooks for DataVolumes.
const ours = `ne .Values.engine "cdi"`

func conditions() []condition {
	return []condition{
		{rolesFile, "\n  name: cdi.kubevirt.io:", ours},
		{cdiFile, "", ours},
		{controllerFile, "\n  name: vmdisk-controller-metrics\n", ".Values.metrics.enabled"},
	}
}
