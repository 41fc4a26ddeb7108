"""The pods of an installation keep to Kubernetes' pod security standard `restricted`, whatever the values are."""

from typing import Any

import pytest

from tests.deploy.rendering import MANIFEST, Body, objects, of_kind, render, the_only

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def breaches(spec: Body) -> list[str]:
    """What of the standard a pod's spec breaks, by the standard's own list of controls."""
    pod = spec.get("securityContext", {})
    found = [f"{key} is set" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    found += [
        f"volume {next(iter(volume.keys() - {'name'}))}"
        for volume in spec.get("volumes", [])
        if not volume.keys() & VOLUMES
    ]
    found += ["sysctls"] if pod.get("sysctls") else []
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        own = container.get("securityContext", {})
        found += [f"{container['name']}: {breach}" for breach in _container_breaches(pod, own)]
        found += [f"{container['name']}: host port" for port in container.get("ports", []) if port.get("hostPort")]
    return found


def _container_breaches(pod: dict[str, Any], own: dict[str, Any]) -> list[str]:
    both = {**pod, **own}
    capabilities = own.get("capabilities", {})
    rules = {
        "privileged": not own.get("privileged"),
        "may gain privileges": own.get("allowPrivilegeEscalation") is False,
        "may be root": both.get("runAsNonRoot") is True and both.get("runAsUser") != 0,
        "no seccomp profile": both.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
        "keeps capabilities": capabilities.get("drop") == ["ALL"],
        "adds capabilities": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
        "masked /proc": own.get("procMount", "Default") == "Default",
    }
    return [breach for breach, kept in rules.items() if not kept]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="by default"),
        pytest.param({"runAsUser": None}, id="the platform chooses the user"),
        pytest.param({"watchNamespaces": ["research"], "binding": "binding", "nudge": True}, id="namespaced"),
        pytest.param({"networkPolicy.enabled": False, "podDisruptionBudget.enabled": False}, id="less around it"),
    ],
)
def test_s6_every_pod_of_the_chart_is_restricted(values):
    bodies = objects(render(values, tests=True))
    specs = [the_only(bodies, "Deployment")["spec"]["template"]["spec"], the_only(bodies, "Pod")["spec"]]
    assert [breaches(spec) for spec in specs] == [[], []]
    for spec in specs:
        assert all(container["securityContext"]["readOnlyRootFilesystem"] is True for container in spec["containers"])


def test_s6_the_manifests_namespace_admits_nothing_less():
    bodies = objects(MANIFEST.read_text())
    assert the_only(bodies, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert breaches(the_only(bodies, "Deployment")["spec"]["template"]["spec"]) == []


def test_s6_the_token_is_where_it_is_needed_and_nowhere_else():
    bodies = objects(render(tests=True))
    assert the_only(bodies, "ServiceAccount")["automountServiceAccountToken"] is False
    assert the_only(bodies, "Pod")["spec"]["automountServiceAccountToken"] is False
    assert the_only(bodies, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"] is True


@pytest.mark.parametrize(
    ("logs", "root"),
    [
        pytest.param(False, [], id="by default"),
        pytest.param(True, ["monitor: may be root"], id="output of pods belongs to root"),
    ],
)
def test_s6_the_monitor_breaks_what_it_must_and_nothing_else(logs, root):
    """The node's address, and two of its directories to read. Whoever does not want that leaves it off."""
    bodies = objects(render({"monitor.enabled": True, "monitor.logs": logs}))
    spec = the_only(bodies, "DaemonSet")["spec"]["template"]["spec"]
    host = ["hostNetwork is set", "volume hostPath", "volume hostPath"]
    assert sorted(breaches(spec)) == sorted([*host, "monitor: host port", *root])
    (monitor,) = spec["containers"]
    assert all(mount["readOnly"] is True for mount in monitor["volumeMounts"])
    assert monitor["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["automountServiceAccountToken"] is False
    assert breaches(the_only(bodies, "Deployment")["spec"]["template"]["spec"]) == []
    assert all(account["automountServiceAccountToken"] is False for account in of_kind(bodies, "ServiceAccount"))


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        pytest.param({"hostNetwork": True}, "hostNetwork is set", id="the node's network"),
        pytest.param({"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}, "volume hostPath", id="the node's disk"),
        pytest.param({"securityContext": {}}, "operator: may be root", id="anybody"),
    ],
)
def test_the_check_would_notice(change, breach):
    (deployment,) = of_kind(objects(render()), "Deployment")
    assert breach in breaches({**deployment["spec"]["template"]["spec"], **change})
