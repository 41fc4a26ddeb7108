"""The control plane itself: a real one, with users that may do nothing until told, that survives a restart."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.requests import ApiError, until

ROOT = Path(__file__).parents[2]


def test_nobody_may_do_anything_unasked_and_what_they_tried_is_on_record(control_plane: ControlPlane, namespace: str):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    with pytest.raises(ApiError) as refused:
        control_plane.api("alice").get(path)
    assert refused.value.status == 403
    tried = [event for event in control_plane.audited() if event["requestURI"] == path]
    assert [(event["user"]["username"], event["verb"]) for event in tried] == [("alice", "list")]
    assert control_plane.api().items(path) is not None
    assert len([event for event in control_plane.audited() if event["requestURI"] == path]) == 1, "admin is not audited"


def test_a_role_lets_a_user_do_what_it_says_and_no_more(control_plane: ControlPlane, namespace: str):
    control_plane.kubectl("-n", namespace, "create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    control_plane.kubectl("-n", namespace, "create", "rolebinding", "reader", "--role=reader", "--user=bob")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    until(lambda: control_plane.api("bob").get(path), "bob may read")
    with pytest.raises(ApiError, match="403"):
        control_plane.api("bob").create(path, {"metadata": {"name": "x"}})


def test_somebody_new_is_known_by_a_certificate_or_as_a_service_account(control_plane: ControlPlane, namespace: str):
    by_certificate = control_plane.certificate_kubeconfig("zoe", "painters")
    as_account = control_plane.service_account_kubeconfig(namespace, "default")
    asked = ["kubectl", "get", "pods", "-n", namespace, "--kubeconfig"]
    said = [subprocess.run([*asked, str(c)], capture_output=True, text=True) for c in (by_certificate, as_account)]
    assert 'User "zoe" cannot list' in said[0].stderr
    assert f'User "system:serviceaccount:{namespace}:default" cannot list' in said[1].stderr


def test_an_api_server_that_was_away_is_the_same_when_it_is_back(control_plane: ControlPlane, namespace: str):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = control_plane.api().create(path, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    control_plane.restart_apiserver()
    assert control_plane.api().get(f"{path}/kept")["metadata"]["uid"] == made["metadata"]["uid"]


def test_controllers_collect_what_is_owned_by_something_gone(control_plane: ControlPlane, namespace: str):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api = control_plane.api()
    owner = api.create(path, {"metadata": {"name": "owner"}})["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    api.create(path, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    api.delete(f"{path}/owner")
    until(lambda: "owned" not in [item["metadata"]["name"] for item in api.items(path)], "the owned one is gone")


STARTS_ONE = """
import signal, sys
from pathlib import Path
from tests.cluster.children import Child
child = Child("sleeper", ["sleep", "1000"], Path(sys.argv[1]))
print(child.pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
def test_children_die_with_the_process_that_started_them(tmp_path: Path, how: signal.Signals):
    command = [sys.executable, "-c", STARTS_ONE, str(tmp_path / "log")]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    parent.send_signal(how)
    parent.wait()
    parent.stdout.close()
    until(lambda: not _alive(child), "the child is dead too", patience_s=30)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
