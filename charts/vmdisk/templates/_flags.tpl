{{- /* The controller's flags that are not as the controller has them by itself. */ -}}
{{- define "vmdisk.flags" -}}
{{- if ne .Release.Namespace "vmdisk" }}
- --namespace={{ .Release.Namespace }}
{{- end }}
{{- if ne .Values.imagePullPolicy "IfNotPresent" }}
- --worker-image-pull-policy={{ .Values.imagePullPolicy }}
{{- end }}
{{- if ne .Values.engine "vmdisk" }}
- --engine={{ .Values.engine }}
{{- end }}
{{- if ne .Values.crossClassClone "copy" }}
- --cross-class-clone={{ .Values.crossClassClone }}
{{- end }}
{{- with .Values.defaultStorageClass }}
- --default-storage-class={{ . }}
{{- end }}
{{- if ne .Values.images.namespace "vmdisk-images" }}
- --image-namespace={{ .Values.images.namespace }}
{{- end }}
{{- with .Values.images.prefix }}
- --image-prefix={{ . }}
{{- end }}
{{- with .Values.scratchSize }}
- --scratch-size={{ . }}
{{- end }}
{{- if not .Values.metrics.enabled }}
- --metrics-address=0
{{- end }}
{{- range .Values.extraFlags }}
- {{ . | quote }}
{{- end }}
{{- end }}
