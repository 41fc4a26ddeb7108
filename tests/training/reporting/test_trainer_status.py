"""What Kubeflow's Trainer is told when it asks for the status of a TrainJob."""

import json
import ssl
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from sterna.training.reporting.reporter import Facts
from sterna.training.reporting.trainer_status import CA_CERT, TOKEN, URL, body_of
from tests.needs import needs_program
from tests.training.reporting.listener import listening

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/job/status"


def test_a_trainjob_is_told_when_it_is_done(attach, monitor, tmp_path: Path):
    (tmp_path / "token").write_text("jwt")
    run = attach(**{URL: monitor.url + PATH, TOKEN: str(tmp_path / "token")})
    for _, _ in run.steps(5):
        run.report(loss=0.25, nonsense="no number", accuracy=1)
    run.finish()
    monitor.until(lambda: monitor.bodies, "the end")
    status = monitor.documents()[-1]["trainerStatus"]
    assert (status["progressPercentage"], status["estimatedRemainingSeconds"]) == (100, 0)
    assert status["metrics"] == [{"name": "loss", "value": "0.25"}, {"name": "accuracy", "value": "1"}]
    assert datetime.fromisoformat(status["lastUpdatedTime"]).tzinfo is not None
    assert set(monitor.paths) == {PATH}
    assert set(monitor.tokens) == {"Bearer jwt"}


def test_a_program_that_fails_does_not_count_as_done(attach, monitor):
    run = attach(**{URL: monitor.url + PATH})

    def fails_in_the_fourth_step() -> None:
        with run:
            for _, number in run.steps(4):
                run.report(loss=0.5)
                _ = 1 / (3 - number)

    with pytest.raises(ZeroDivisionError):
        fails_in_the_fourth_step()
    monitor.until(lambda: monitor.bodies, "a last word")
    assert monitor.documents()[-1]["trainerStatus"]["progressPercentage"] == 75


def test_other_ranks_leave_it_to_rank_0(attach, monitor):
    run = attach(**{URL: monitor.url + PATH, "RANK": "1", "WORLD_SIZE": "2"})
    run.report(loss=0.5)
    run.finish()
    assert not monitor.bodies


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(Facts(), (None, None), id="nothing is known"),
        pytest.param(Facts(units_done=5.0), (None, None), id="nor how much there is to do"),
        pytest.param(Facts(units_done=5.0, units_total=20.0), (25, None), id="nor how fast it goes"),
        pytest.param(Facts(units_done=5.0, units_total=20.0, step_s=2.5), (25, 37), id="everything is known"),
        pytest.param(Facts(units_done=20.0, units_total=20.0, step_s=1.0), (99, 0), id="100 is for the end"),
        pytest.param(Facts(units_done=30.0, units_total=20.0, step_s=1.0), (99, 0), id="more than there was to do"),
        pytest.param(Facts(units_done=1.0, units_total=1e15, step_s=9.0), (0, 2**31 - 1), id="longer than Go counts"),
    ],
)
def test_percentage_and_remaining_seconds(facts, expected):
    status = json.loads(body_of(facts, {}, finished=False))["trainerStatus"]
    assert (status.get("progressPercentage"), status.get("estimatedRemainingSeconds")) == expected


def test_the_server_is_known_by_the_authority_that_trainer_names(attach, tmp_path: Path, caplog):
    certificate, key = tmp_path / "ca.crt", tmp_path / "key"
    made = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=trainer")
    named = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate))
    subprocess.run([needs_program("openssl"), "req", *made, *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with listening(context=context) as server:
        stranger = attach(**{URL: f"https://127.0.0.1:{server.port}{PATH}"})
        stranger.report(loss=0.5)
        server.until(lambda: "certificate verify failed" in caplog.text, "the stranger is not trusted")
        assert not server.bodies
        known = attach(**{CA_CERT: str(certificate)})
        known.report(loss=0.5)
        server.until(lambda: server.bodies, "the server that trainer names")
        assert server.documents()[0]["trainerStatus"]["metrics"] == [{"name": "loss", "value": "0.5"}]
