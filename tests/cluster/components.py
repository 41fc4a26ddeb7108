"""The options of the API server and of the controllers, and why. Nothing runs here."""

from pathlib import Path

SERVICE_ADDRESSES = "10.96.0.0/16"
# nothing that a test looks for comes from these controllers, and at 500 fake nodes they write a lot
QUIET = ("nodelifecycle", "nodeipam", "ttl", "attachdetach", "cloud-node-lifecycle")
OWN_GROUPS = ("system:masters", "system:nodes", "system:serviceaccounts:kube-system")
OWN_PARTS = ("apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "anonymous")
AUDIT_POLICY = {  # everybody but admin and the cluster's own parts
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        *({"level": "None", "userGroups": [group]} for group in OWN_GROUPS),
        {"level": "None", "users": [f"system:{part}" for part in OWN_PARTS]},
        {"level": "Metadata"},
    ],
}
Options = dict[str, str | int | Path]


def apiserver_options(
    *,
    etcd: str,
    address: str,
    port: int,
    directory: Path,
    serving: tuple[Path, Path],  # certificate and key
    to_kubelets: tuple[Path, Path],
    signing: tuple[Path, Path],  # private and public
    ca_file: Path,
    tokens: Path,
    controllers: bool,
    node_lifecycle: bool,
) -> Options:
    options: Options = {
        "etcd-servers": etcd,
        "bind-address": address,
        "advertise-address": address,
        "secure-port": port,
        "cert-dir": directory,
        "tls-cert-file": serving[0],
        "tls-private-key-file": serving[1],
        "client-ca-file": ca_file,
        "token-auth-file": tokens,
        "service-account-signing-key-file": signing[0],
        "service-account-key-file": signing[1],
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-cluster-ip-range": SERVICE_ADDRESSES,
        "authorization-mode": "Node,RBAC",
        "allow-privileged": "true",
        "kubelet-client-certificate": to_kubelets[0],
        "kubelet-client-key": to_kubelets[1],
        "kubelet-preferred-address-types": "InternalIP",
        "default-not-ready-toleration-seconds": 5,
        "default-unreachable-toleration-seconds": 5,
    }
    without = [] if controllers else ["ServiceAccount"]  # nobody would make the accounts it asks for
    without += [] if node_lifecycle else ["TaintNodesByCondition"]  # nobody would take the taint away again
    if without:
        options["disable-admission-plugins"] = ",".join(without)
    if address.startswith("127."):  # loopback cannot be an endpoint of a service
        options["endpoint-reconciler-type"] = "none"
    return options


def controller_options(*, kubeconfig: Path, directory: Path, ca: tuple[Path, Path], node_lifecycle: bool) -> Options:
    """A node is given up after eight seconds of silence, and the client's limits are out of the way."""
    switched_off = [] if node_lifecycle else [f"-{name}" for name in QUIET]
    return {
        "kubeconfig": kubeconfig,
        "service-account-private-key-file": directory / "sa.key",
        "root-ca-file": ca[0],
        "cluster-signing-cert-file": ca[0],
        "cluster-signing-key-file": ca[1],
        "use-service-account-credentials": "true",
        "controllers": ",".join(["*", *switched_off]),
        "node-monitor-period": "1s",
        "node-monitor-grace-period": "8s",
        "kube-api-qps": 1000,
        "kube-api-burst": 1000,
    }
