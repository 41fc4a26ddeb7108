"""Which cluster and namespace commands mean, as whom, and what they say where that does not work."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, PYTORCH_JOBS, TF_JOBS
from tests.cluster.faults import Answer
from tests.cluster.fixtures import fresh_name
from tests.cluster.requests import until
from tests.interfaces.cluster.console import console_of
from tests.interfaces.cluster.manifests import SHAPES, elastic
from tests.interfaces.cluster.standings import running

KUBECTL_STERNA = [sys.executable, "-m", "sterna.interfaces.cli.kubectl"]


def test_namespaces_are_those_of_the_context_unless_another_is_named(console, kinds, tmp_path):
    console.submit(elastic("here"))
    other = fresh_name("other")
    console.api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    console.answer("-n", other, "submit", "-f", "-", stdin=elastic("there"))
    console.answer("submit", "-n", other, "-f", "-", stdin=elastic("again"))
    names = [f"{other}/again", f"{other}/there"]
    assert console.answer("get", "jobs", "-n", other, "-o", "name").split() == names
    assert console.answer("-n", other, "get", "jobs", "-o", "name").split() == names
    assert console.answer("get", "jobs", "-o", "name").split() == [f"{console.namespace}/here"]
    everywhere = console.answer("get", "jobs", "-A", "-o", "name").split()
    assert {*names, f"{console.namespace}/here"} <= set(everywhere)
    assert console.data("get", "job", f"{other}/there")["namespace"] == other
    console.api.delete(f"/api/v1/namespaces/{other}")


def test_kubectl_finds_the_plugin_on_the_path(console, tmp_path):
    plugin = tmp_path / "kubectl-sterna"
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -m sterna.interfaces.cli.kubectl "$@"\n')
    plugin.chmod(0o755)
    env = {**os.environ, "KUBECONFIG": str(console.kubeconfig), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    console.submit(elastic("job1"))
    done = subprocess.run(["kubectl", "sterna", "explain", "job1"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert f"{console.namespace}/job1: Waiting" in done.stdout


def test_the_same_commands_are_a_program_of_their_own(console):
    env = {**os.environ, "KUBECONFIG": "/nowhere", "NO_COLOR": "1"}
    where = ["--kubeconfig", str(console.kubeconfig)]
    made = subprocess.run(
        [*KUBECTL_STERNA, "submit", "-f", "-", *where], input=elastic("a"), capture_output=True, text=True, env=env
    )
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.splitlines()[1] == "follow it with: kubectl sterna logs -f a"
    get = [*KUBECTL_STERNA, *where, "get", "jobs", "-o", "name"]
    listed = subprocess.run(get, capture_output=True, text=True, env=env)
    assert listed.stdout.split() == [f"{console.namespace}/a"]
    nowhere = subprocess.run([*KUBECTL_STERNA, "get", "jobs"], capture_output=True, text=True, env=env)
    assert nowhere.returncode == 2
    assert "/nowhere" in nowhere.stderr
    up = subprocess.run([*KUBECTL_STERNA, "up"], capture_output=True, text=True, env=env)
    assert up.returncode == 2
    assert "the operator is the engine" in up.stderr


@pytest.mark.parametrize("command", ["up", "down", "demo"])
def test_what_makes_no_sense_on_a_cluster_says_so(console, command):
    assert "expected local" in console.refused(2, command)


def test_a_home_is_none_of_a_clusters(console, tmp_path):
    assert "--home" in console.refused(2, "get", "jobs", "--home", str(tmp_path))


def test_who_may_do_nothing_is_told_what_he_may_not(kinds, namespace, tmp_path):
    alice = console_of(kinds, namespace, tmp_path, user="alice")
    for command in (["get", "jobs"], ["describe", "a"], ["explain", "a"], ["get", "nodes"], ["delete", "a"]):
        words = alice.refused(1, *command)
        assert "forbidden" in words
        assert '"alice"' in words
    assert "forbidden" in alice.refused(1, "submit", "-f", "-", stdin=elastic("a"))
    assert "forbidden" in alice.refused(1, "drain", "node-1")


def test_who_may_see_only_his_namespace_is_served_there(console, kinds, namespace, tmp_path):
    rules = [
        {"apiGroups": ["kubeflow.org", "sterna.dev"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": ["get", "list", "watch"]},
    ]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    console.api.create(f"{rbac}/roles", {"metadata": {"name": "trainer"}, "rules": rules})
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "trainer", "apiGroup": "rbac.authorization.k8s.io"}
    console.api.create(f"{rbac}/rolebindings", {"metadata": {"name": "bob"}, "subjects": [subject], "roleRef": role})
    bob = console_of(kinds, namespace, tmp_path, user="bob")
    until(lambda: bob.run("get", "jobs").exit_code == 0, "bob may see his namespace")
    bob.submit(elastic("a"))
    assert [job["policy"] for job in bob.data("get", "jobs")] == [""], "he may not see the operator's configuration"
    assert bob.data("explain", "a")["wouldChange"] == ["the next cycle looks at it"]
    assert bob.data("events") == []
    assert bob.data("get", "migrations") == []
    assert "forbidden" in bob.refused(1, "get", "jobs", "-A")
    console.stand(ELASTIC_JOBS, "a", running("n1"))
    assert "Running" in bob.answer("wait", "a", "--for", "running", "--timeout", "60s")
    assert bob.answer("migrate", "a", "--to", "n2").endswith("Pending\n")
    bob.answer("delete", "a")
    assert "get jobs" not in bob.run("get", "jobs").stderr


def test_a_cluster_without_our_kinds_is_told_from_one_without_jobs(console, kinds, tmp_path, monkeypatch):
    """The definitions of another installation: those of this one are everybody's here."""
    from sterna.engines.kubernetes.console import finding

    unknown = tuple(resource._replace(version="v0") for resource in finding.JOB_KINDS)
    monkeypatch.setattr(finding, "JOB_KINDS", unknown)
    assert "is it installed there?" in console.refused(1, "get", "jobs")


def test_an_api_server_that_is_away_is_told_in_words(console, tmp_path):
    config = json.loads(console.kubeconfig.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = "https://127.0.0.1:9"
    away = tmp_path / "away.kubeconfig"
    away.write_text(json.dumps(config))
    words = console.refused(1, "--kubeconfig", str(away), "get", "jobs")
    assert "127.0.0.1:9" in words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("sterna describe m", ["mnist"], id="jobs of the context's namespace"),
        pytest.param("sterna suspend --context nope m", [], id="silent where nobody can be asked"),
        pytest.param("sterna get j", ["jobs"], id="kinds"),
    ],
)
def test_the_shell_completes_from_the_cluster(console, words, expected):
    console.submit(elastic("mnist"))
    env = {
        **os.environ,
        "KUBECONFIG": str(console.kubeconfig),
        "STERNA_ENGINE": "kubernetes",
        "_STERNA_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "sterna.interfaces.cli.main"], env=env, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


def test_two_kinds_of_one_name_are_not_mixed_up(console):
    console.submit(elastic("a"))
    other = yaml.safe_load(SHAPES["PyTorchJob with elasticPolicy"].named("a"))
    console.api.create(console.path(PYTORCH_JOBS), other)  # by kubectl: nobody asks us there
    assert "a PyTorchJob and a ElasticJob" in console.refused(1, "describe", "a")
    assert len(console.data("get", "jobs")) == 2


def test_a_job_that_makes_no_sense_is_listed_with_what_is_wrong(console):
    wrong = yaml.safe_load(SHAPES["TFJob, flat as DRAGON writes it"].named("a"))
    wrong["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"] = "other"
    console.api.create(console.path(TF_JOBS), wrong)
    [job] = console.data("get", "jobs")
    assert job["reason"] == "Invalid"
    assert "tensorflow" in job["message"]
    assert "its spec makes sense" in console.data("explain", "a")["wouldChange"][-1]
    assert "cannot be scaled before" in console.refused(1, "scale", "a", "--max", "4")
    console.answer("delete", "a")


def test_an_installation_without_the_packages_says_which_it_needs(console):
    script = "import sys; sys.modules['msgspec'] = None\nfrom sterna.interfaces.cli.kubectl import main; main()"
    env = {**os.environ, "KUBECONFIG": str(console.kubeconfig)}
    done = subprocess.run([sys.executable, "-c", script, "get", "jobs"], capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert "pip install 'sterna[kubernetes]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_the_other_commands_load_nothing_of_a_cluster():
    heavy = ("aiohttp", "msgspec", "starlette", "pydantic", "yaml", "numpy")
    script = f"import sys, sterna.interfaces.cli.kubectl; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_r3_an_api_server_that_fails_for_a_while_is_asked_again(console, chaos):
    console.submit(elastic("a"))
    through = ["--kubeconfig", str(chaos.kubeconfig("admin")), "-n", console.namespace]
    chaos.inject(Answer(500), method="GET", path="/elasticjobs", times=2)
    assert console.answer(*through, "get", "jobs", "-o", "name") == f"{console.namespace}/a\n"
    chaos.inject(Answer(409), method="PATCH", path="/elasticjobs/a", times=2)
    assert "1 to 4" in console.answer(*through, "scale", "a", "--max", "4")
    chaos.inject(Answer(409), method="PATCH", path="/elasticjobs/a", times=None)
    assert "written by others all the time" in console.refused(1, *through, "suspend", "a")
    chaos.inject(Answer(503), method="GET", times=None)
    assert "HTTP 503" in console.refused(1, *through, "get", "jobs")
