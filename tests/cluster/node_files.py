"""The configuration of a real node: what containerd, the kubelet and the pods' network read. Nothing runs here."""

from pathlib import Path

from tests.cluster.images import PAUSE_IMAGE
from tests.cluster.requests import Body

SOCKET = "/run/containerd/containerd.sock"
PLUGINS = "/usr/lib/cni"
# places that are wired into the programs, so that each node needs its own behind them
DISKS = (
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/cni",
    "/etc/cni",
    "/var/log/pods",
    "/var/log/containers",
)


def containerd_config() -> str:
    """The native snapshotter copies the few files of our images, and works on every file system."""
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "/etc/cni/net.d"
"""


def pod_network(subnet: str) -> Body:
    addresses = {"type": "host-local", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{**bridge, "ipam": addresses}, ports]}


def kubelet_config(
    *, address: str, dns: str, cgroup: str, ca_file: Path, resolv_conf: Path, version: tuple[int, int]
) -> Body:
    """Reports every two seconds, so that its death is noticed soon, and collects no images."""
    modern: Body = {"containerRuntimeEndpoint": f"unix://{SOCKET}"} if version >= (1, 27) else {}
    modern |= {"failCgroupV1": False} if version >= (1, 31) else {}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "healthzBindAddress": "127.0.0.1",
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(ca_file)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failSwapOn": False,
        "clusterDNS": [dns],
        "clusterDomain": "cluster.local",
        "resolvConf": str(resolv_conf),
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 8,
        "syncFrequency": "10s",
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "24h",
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "maxPods": 240,
        **modern,
    }


def kubelet_flags(version: tuple[int, int]) -> list[str]:
    old = ["--container-runtime=remote", f"--container-runtime-endpoint=unix://{SOCKET}"]
    return ["--cert-dir=/var/lib/kubelet/pki", "--v=2", *(old if version < (1, 27) else [])]


def proxy_flags() -> list[str]:
    """The limits of connection tracking are the machine's, and read-only in a node's namespace."""
    alone = ("max-per-core", "tcp-timeout-established", "tcp-timeout-close-wait")
    return ["--proxy-mode=iptables", *(f"--conntrack-{name}=0" for name in alone)]


def write_hardware(directory: Path, *, cpus: int, memory_gib: int) -> dict[str, str]:
    """Files that make a kubelet see so many processors and so much memory, and the places to mount them over."""
    one = directory / "hardware" / "node0"
    for cpu in range(cpus):
        topology = one / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True, exist_ok=True)
        (topology / "core_id").write_text(f"{cpu}\n")
        (topology / "physical_package_id").write_text("0\n")
        (one / f"cpu{cpu}" / "online").write_text("1\n")
    (one / "hugepages").mkdir(exist_ok=True)
    kib = memory_gib << 20
    (one / "meminfo").write_text(f"Node 0 MemTotal: {kib} kB\n")
    memory = directory / "hardware" / "meminfo"
    memory.write_text(f"MemTotal: {kib} kB\nMemFree: {kib} kB\nMemAvailable: {kib} kB\nSwapTotal: 0 kB\n")
    return {str(one.parent): "/sys/devices/system/node", str(memory): "/proc/meminfo"}
