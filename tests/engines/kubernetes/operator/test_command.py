"""`sterna operator` as a process of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from sterna.interfaces.cli.main import cli
from tests.engines.kubernetes.operator.lab import Lab, elastic_job

ROOT = Path(__file__).parents[4]


def test_it_leads_runs_jobs_and_gives_the_lease_back_when_told_to_stop(lab: Lab, tmp_path: Path):
    lab.nodes.add(1, gpus=1)
    log = tmp_path / "log"
    command = [sys.executable, "-m", "sterna.interfaces.cli.main", "operator", "--log-format", "json"]
    command += ["--kubeconfig", str(lab.kubeconfig), "--namespace", lab.namespace, "--watch-namespace", lab.namespace]
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{lab.namespace}/leases/sterna"
    with log.open("w") as errors:
        process = subprocess.Popen([*command, "--identity", "me"], stderr=errors, cwd=ROOT)
    try:
        lab.create(elastic_job("job", low=1, high=1))
        lab.until_pods("job-worker-0")
        assert lab.api.get(lease)["spec"]["holderIdentity"].startswith("me_")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert lab.api.get(lease)["spec"]["holderIdentity"] in ("", None)
    assert lab.until_pods("job-worker-0"), "jobs run on"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(line["message"] == "cycle" and line["actions"] == 1 for line in lines)


def test_what_makes_no_sense_is_told_in_one_line(tmp_path: Path):
    config = tmp_path / "config"
    config.write_text("{}")
    runner = CliRunner()
    for words, told in (
        (["--kubeconfig", str(config)], "current-context"),
        (["--kubeconfig", str(tmp_path / "none")], "none"),
        (["--set", "a=1"], "--policy"),
        (["--log-level", "loud"], "--log-level"),
    ):
        answer = runner.invoke(cli, ["operator", *words])
        assert answer.exit_code == 2, answer.output
        assert told in answer.output
        assert "Traceback" not in answer.output


def test_a_missing_extra_is_told_and_what_would_do():
    """In a process whose Python has no aiohttp."""
    program = "import sys; sys.modules['aiohttp'] = None; from sterna.interfaces.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "operator"], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120
    )
    assert done.returncode == 2
    assert "sterna[kubernetes]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_tells_what_can_be_changed_while_it_runs():
    answer = CliRunner().invoke(cli, ["operator", "--help"])
    assert answer.exit_code == 0
    for word in ("sterna-config", "rateLimitSeconds", "CUSTOM_CLUSTER_DOMAIN", "--leader-elect"):
        assert word in answer.output
