"""A Kubernetes cluster of the project's own, for tests and for `make cluster`.

binaries       where kube-apiserver and its siblings come from
packages       what else a machine needs, installed by `make test`
control_plane  etcd, kube-apiserver, kube-controller-manager and, where wanted, kube-scheduler
fake_nodes     nodes without kubelets: their part is played through the API, for speed and scale
real_nodes     kubelets, containerd and runc in namespaces of their own, with service DNS
chaos          a proxy before the API server that answers wrongly, late, twice or not at all
fixtures       all of that for pytest

Nothing here imports the code under test. All traffic stays on loopback and on bridges made here.
"""
