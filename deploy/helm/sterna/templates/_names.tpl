{{- define "sterna.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "sterna.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "sterna.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "sterna.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "sterna.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sterna.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "sterna.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end }}

{{/* What finds the operator's pods: must never change, a Deployment's selector cannot. */}}
{{- define "sterna.selector" -}}
app.kubernetes.io/name: {{ include "sterna.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{/* What finds the monitors' pods. */}}
{{- define "sterna.monitor.selector" -}}
app.kubernetes.io/name: {{ include "sterna.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: monitor
{{- end }}

{{- define "sterna.monitor.namespace" -}}
{{- default .Release.Namespace .Values.monitor.namespace -}}
{{- end }}

{{- define "sterna.monitor.account" -}}
{{- include "sterna.fullname" . }}-monitor
{{- end }}

{{/* The operator's installation secret, or a monitor's own token: where `--token-file` looks. */}}
{{- define "sterna.tokenMount" -}}
- name: token
  mountPath: /var/run/secrets/sterna
  readOnly: true
{{- end }}

{{- define "sterna.tokenVolume" -}}
- name: token
  secret:
    secretName: {{ .Values.monitor.tokenSecret.name }}
    items: [{key: token, path: token}]
{{- end }}

{{- define "sterna.journalDirectory" -}}
/var/lib/sterna/journal
{{- end }}

{{/* An emptyDir has room for two files more than there may be: a new one is begun before the oldest goes, and directories take room, too. */}}
{{- define "sterna.journalVolume" -}}
{{- $journal := .Values.journal -}}
- name: journal
{{- if $journal.existingClaim }}
  persistentVolumeClaim:
    claimName: {{ $journal.existingClaim }}
{{- else }}
  emptyDir:
    sizeLimit: {{ mul (add (int $journal.files) 2) (trimSuffix "Mi" $journal.fileSize | int) }}Mi
{{- end }}
{{- end }}

{{- define "sterna.labels" -}}
app.kubernetes.io/name: {{ include "sterna.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Pod security standard `restricted`, for the pod and for its containers. */}}
{{- define "sterna.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sterna.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
