{{/*
What the operator may do. Every rule says why; a verb that nothing uses does not belong here. No secrets, no exec, no
wildcards, and nodes are only read. Everything is followed by list and watch; get is for the moment when a write meets
an object that is newer than what the watch has told. The comments are the documentation: docs/install.md is filled
from them.
*/}}

{{/* Of the whole cluster, whatever namespaces it looks after. */}}
{{- define "sterna.rules.cluster" -}}
# room, readiness, taints and accelerators of nodes; draining is asked for by an annotation that people write
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
# where the volumes of claims that jobs mount can be, and how claims that have none yet get one
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get]
# the same
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [get]
{{- if and .Values.watchNamespaces .Values.seeAllPods }}
# pods of namespaces that are not its own to look after take room on the nodes (seeAllPods)
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end }}
{{- if .Values.monitor.enabled }}
# have the API server say whose token a monitor comes with; none of ours is on the nodes (monitor)
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end }}
{{- end }}

{{/* Of the namespace that monitors run in. */}}
{{- define "sterna.rules.monitors" -}}
# on which node the monitor's pod is whose token was reviewed (monitor)
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
{{- end }}

{{/* Of each namespace whose jobs it looks after. */}}
{{- define "sterna.rules.jobs" -}}
# jobs of the kinds it runs; a finished one is deleted when its ttlSecondsAfterFinished is over
- apiGroups: [kubeflow.org]
  resources: [tfjobs, pytorchjobs{{ if .Values.mpiJobs }}, mpijobs{{ end }}]
  verbs: [get, list, watch, delete]
# jobs of its own kind, the same
- apiGroups: [sterna.dev]
  resources: [elasticjobs]
  verbs: [get, list, watch, delete]
# requests to move workers or to empty a node
- apiGroups: [sterna.dev]
  resources: [migrations]
  verbs: [list, watch]
{{- if .Values.monitor.enabled }}
# the same for requests that come in by the door: each is made such an object, and one that was refused makes room for the next (monitor)
- apiGroups: [sterna.dev]
  resources: [migrations]
  verbs: [create, delete]
{{- end }}
# where jobs stand: what is intended for them, conditions, counts
- apiGroups: [kubeflow.org]
  resources: [tfjobs/status, pytorchjobs/status{{ if .Values.mpiJobs }}, mpijobs/status{{ end }}]
  verbs: [patch]
# the same for its own kinds
- apiGroups: [sterna.dev]
  resources: [elasticjobs/status, migrations/status]
  verbs: [patch]
# pods name their job as owner and hold up its deletion; clusters with OwnerReferencesPermissionEnforcement (OpenShift) ask for this
- apiGroups: [kubeflow.org]
  resources: [tfjobs/finalizers, pytorchjobs/finalizers{{ if .Values.mpiJobs }}, mpijobs/finalizers{{ end }}]
  verbs: [update]
# the same for its own kind
- apiGroups: [sterna.dev]
  resources: [elasticjobs/finalizers]
  verbs: [update]
# claims that jobs mount, by name: a job waits for one that is not bound
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
# workers; those of others are only read, because they take room
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
# give a worker or its service the owner reference back that was removed; with nudge, annotate a launcher so that its kubelet looks at once
- apiGroups: [""]
  resources: [pods, services]
  verbs: [patch]
{{- if eq .Values.binding "binding" }}
# put a pod on the node it was placed on (binding: binding)
- apiGroups: [""]
  resources: [pods/binding]
  verbs: [create]
{{- end }}
{{- if .Values.kubeshare }}
# SharePods take room like pods; those of high priority are given their node and card (kubeshare)
- apiGroups: [kubeshare.nthu]
  resources: [sharepods]
  verbs: [get, list, watch, patch]
{{- end }}
# one headless service a worker gives it a name that stays
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, delete]
{{- if .Values.mpiJobs }}
# host lists of MPIJobs (mpiJobs)
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update]
{{- end }}
# say on the job what was done and why; one that is said again is counted
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end }}

{{/* Of its own namespace. */}}
{{- define "sterna.rules.own" -}}
# become the leader when there is no Lease yet
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# stay the leader, or see who is
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [sterna]
  verbs: [get, patch]
# how to decide, what a policy remembers, what was learned of how fast jobs train, and which jobs have ended
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [sterna-config, sterna-memory, sterna-knowledge, sterna-finished]
  verbs: [list, watch]
# the latter three, when there is nothing yet; what is to be made has no name that a rule could hold it to
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
# the same three, when there is something
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [sterna-memory, sterna-knowledge, sterna-finished]
  verbs: [get, patch]
# say about itself what has no job, such as a configuration that cannot be used
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end }}
