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
)

// replacements are tried in their order.
func replacements() []replacement {
	return []replacement{
		{everywhere, "namespace: vmdisk\n", "namespace: {{ .Release.Namespace }}\n"},
		{admissionFile, "values: [vmdisk]", "values: [{{ .Release.Namespace }}]"},
		{admissionFile, "- name: datavolumes.vmdisk.io\n", "{{- if " + ours + " }}\n- name: datavolumes.vmdisk.io\n"},
		{admissionFile, "      path: /datavolumes\n      port: 443\n", "      path: /datavolumes\n      port: 443\n{{- end }}\n"},
		{controllerFile, "  replicas: 1\n", "  replicas: {{ .Values.replicas }}\n"},
		{controllerFile, "      serviceAccountName: vmdisk-controller\n", "      serviceAccountName: vmdisk-controller\n" +
			"      {{- with .Values.imagePullSecrets }}\n      imagePullSecrets: {{ toYaml . | nindent 6 }}\n      {{- end }}\n" +
			"      {{- with .Values.placement }}\n      {{- toYaml . | nindent 6 }}\n      {{- end }}\n"},
		{controllerFile, "        image: vmdisk:latest\n        imagePullPolicy: IfNotPresent\n", "        image: {{ .Values.image }}\n        imagePullPolicy: {{ .Values.imagePullPolicy }}\n"},
		{controllerFile, "        - --worker-image=vmdisk:latest\n", "        - --worker-image={{ .Values.image }}\n        {{- include \"vmdisk.flags\" . | nindent 8 }}\n"},
		{controllerFile, "        ports:\n        - name: metrics\n          containerPort: 8080\n", "        ports:\n        {{- if .Values.metrics.enabled }}\n        - name: metrics\n          containerPort: 8080\n        {{- end }}\n"},
		{controllerFile, "        resources:\n          requests:\n            cpu: 50m\n            memory: 64Mi\n          limits:\n            memory: 512Mi\n", "        resources: {{ toYaml .Values.resources | nindent 10 }}\n"},
		{cdiFile, "  config:\n    featureGates: [HonorWaitForFirstConsumer]\n", "  config: {{ toYaml .Values.cdi.config | nindent 4 }}\n  {{- with .Values.cdi.workload }}\n  workload: {{ toYaml . | nindent 4 }}\n  {{- end }}\n" +
			"  {{- with .Values.cdi.cloneStrategyOverride }}\n  cloneStrategyOverride: {{ . }}\n  {{- end }}\n"},
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
