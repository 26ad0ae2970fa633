{{/* Labels of every object of the release. */}}
{{- define "sealane.labels" -}}
app.kubernetes.io/name: sealane
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What selects the operator's pods; part of an immutable selector, so it never grows. */}}
{{- define "sealane.operator.selector" -}}
app.kubernetes.io/name: sealane
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{/* What selects the node agent's pods. */}}
{{- define "sealane.agent.selector" -}}
app.kubernetes.io/name: sealane
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end }}

{{/* An image reference: (dict "root" $ "image" .Values.operator.image) */}}
{{- define "sealane.image" -}}
{{ .root.Values.image.registry }}/{{ .image.repository }}:{{ .image.tag }}
{{- end }}

{{/* The sidecar image that the webhook injects. */}}
{{- define "sealane.sidecar.image" -}}
{{- if .Values.simulation.enabled -}}
{{ include "sealane.image" (dict "root" . "image" .Values.simulation.image) }}
{{- else -}}
{{ include "sealane.image" (dict "root" . "image" .Values.sidecar.image) }}
{{- end -}}
{{- end }}

{{/* Benchmarks, of which values of an older release say nothing. */}}
{{- define "sealane.benchmarks" -}}
{{- $image := dict "repository" "sealane-bench" "tag" .Chart.AppVersion -}}
{{- $given := default dict .Values.benchmarks -}}
{{- $namespaces := default (list .Release.Namespace) $given.namespaces -}}
{{ dict "enabled" (dig "enabled" true $given) "namespaces" $namespaces "image" (default $image $given.image) | toJson }}
{{- end }}
