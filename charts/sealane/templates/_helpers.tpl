{{/* Labels of every object of the release. */}}
{{- define "sealane.labels" -}}
app.kubernetes.io/name: sealane
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations of every object of the release, if there are any: (dict "root" $ "own" (dict …)) */}}
{{- define "sealane.annotations" -}}
{{- with merge (dict) (.own | default dict) (.root.Values.commonAnnotations | default dict) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What selects pods of a component; part of an immutable selector, so it never grows. */}}
{{- define "sealane.selector" -}}
app.kubernetes.io/name: sealane
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "sealane.operator.selector" -}}
{{ include "sealane.selector" (dict "root" . "component" "operator") }}
{{- end }}

{{- define "sealane.webhook.selector" -}}
{{ include "sealane.selector" (dict "root" . "component" "webhook") }}
{{- end }}

{{- define "sealane.agent.selector" -}}
{{ include "sealane.selector" (dict "root" . "component" "agent") }}
{{- end }}

{{/* An image reference: (dict "root" $ "image" .Values.operator.image) */}}
{{- define "sealane.image" -}}
{{- $registry := (.root.Values.global).imageRegistry | default .root.Values.image.registry -}}
{{- if .image.digest -}}
{{ $registry }}/{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ $registry }}/{{ .image.repository }}:{{ .image.tag }}
{{- end -}}
{{- end }}

{{/* The sidecar image that the webhook injects. */}}
{{- define "sealane.sidecar.image" -}}
{{- if .Values.simulation.enabled -}}
{{ include "sealane.image" (dict "root" . "image" .Values.simulation.image) }}
{{- else -}}
{{ include "sealane.image" (dict "root" . "image" .Values.sidecar.image) }}
{{- end -}}
{{- end }}

{{/* Names of pull secrets, of the chart's own and of an umbrella's: as text or as {name: …}. */}}
{{- define "sealane.pullSecrets" -}}
{{- $names := list -}}
{{- range concat (.Values.image.pullSecrets | default list) ((.Values.global).imagePullSecrets | default list) -}}
{{- $names = append $names (ternary . (get (ternary dict . (kindIs "string" .)) "name") (kindIs "string" .)) -}}
{{- end -}}
{{ $names | uniq | toJson }}
{{- end }}

{{/* Of a pod. */}}
{{- define "sealane.imagePullSecrets" -}}
{{- with include "sealane.pullSecrets" . | fromJsonArray -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* A service account of the release: (dict "of" .Values.operator "default" "sealane-operator"). Older values say nothing of it. */}}
{{- define "sealane.account" -}}
{{ dig "serviceAccount" "name" .default (.of | default dict) }}
{{- end }}

{{/* The account itself: (dict "root" $ "of" .Values.operator "default" "sealane-operator" "namespace" …) */}}
{{- define "sealane.serviceAccount" -}}
{{- $of := .of | default dict -}}
{{- if dig "serviceAccount" "create" true $of }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "sealane.account" . }}
  namespace: {{ .namespace }}
  labels: {{- include "sealane.labels" .root | nindent 4 }}
  {{- with include "sealane.annotations" (dict "root" .root "own" (dig "serviceAccount" "annotations" dict $of)) }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where pods of the release may run: (dict "of" .Values.operator "selector" …). Nothing of it runs on Windows. */}}
{{- define "sealane.placing" -}}
{{- with .of.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
nodeSelector: {{- merge (dict) (.selector | default .of.nodeSelector | default dict) (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- with .tolerations | default .of.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Benchmarks, of which values of an older release say nothing. */}}
{{- define "sealane.benchmarks" -}}
{{- $image := dict "repository" "sealane-bench" "tag" .Chart.AppVersion -}}
{{- $given := default dict .Values.benchmarks -}}
{{- $namespaces := default (list .Release.Namespace) $given.namespaces -}}
{{ dict "enabled" (dig "enabled" true $given) "namespaces" $namespaces "image" (default $image $given.image) | toJson }}
{{- end }}

{{/* Values with what an older release's say nothing of: (dict "given" … "known" …). A given `false` stays. */}}
{{- define "sealane.completed" -}}
{{- $all := .given | default dict | deepCopy -}}
{{- range $name, $value := .known -}}
{{- if not (hasKey $all $name) -}}
{{- $_ := set $all $name $value -}}
{{- end -}}
{{- end -}}
{{ $all | toJson }}
{{- end }}

{{/* The webhook. */}}
{{- define "sealane.webhook" -}}
{{- $resources := dict "requests" (dict "cpu" "50m" "memory" "48Mi") "limits" (dict "memory" "256Mi") -}}
{{- $class := (include "sealane.priorityClass" . | fromJson).name -}}
{{- $known := dict "replicas" 2 "resources" $resources "priorityClassName" $class "port" 14713 "adminPort" 14715 "hostNetwork" false "url" dict -}}
{{ include "sealane.completed" (dict "given" .Values.webhook "known" $known) }}
{{- end }}

{{/* The class of the release. */}}
{{- define "sealane.priorityClass" -}}
{{- $known := dict "create" true "name" "sealane-critical" "value" 1000000000 -}}
{{ include "sealane.completed" (dict "given" .Values.priorityClass "known" $known) }}
{{- end }}

{{/* What every process of the operator's image is told. */}}
{{- define "sealane.environment" -}}
- {name: SEALANE_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: SEALANE_POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: SEALANE_LOG, value: {{ .Values.operator.logLevel | quote }}}
{{- with ((include "sealane.webhook" . | fromJson).url).host }}
- {name: SEALANE_WEBHOOK_NAMES, value: {{ regexReplaceAll ":[0-9]+$" . "" | trimAll "[]" | quote }}}
{{- end }}
- {name: SEALANE_SIDECAR_IMAGE, value: {{ include "sealane.sidecar.image" . | quote }}}
- {name: SEALANE_SIDECAR_PULL_POLICY, value: {{ .Values.image.pullPolicy | quote }}}
- {name: SEALANE_SIDECAR_PULL_SECRETS, value: {{ include "sealane.pullSecrets" . | fromJsonArray | join "," | quote }}}
{{- end }}

{{/* How both run, within the `restricted` standard. No user is named: the image has one, and platforms that give each namespace
its own (OpenShift) replace it. */}}
{{- define "sealane.podSecurity" -}}
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "sealane.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Health, asked at the port that is named so. */}}
{{- define "sealane.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 2
{{- end }}
