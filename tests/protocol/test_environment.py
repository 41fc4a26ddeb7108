"""What an engine sets is what a worker reads; torchrun's own numbers win; nonsense is named."""

from pathlib import Path

import pytest

from sterna.protocol import STERNA_VARIABLES, BadEnvironment, WorkerIdentity, worker_environment
from sterna.protocol import environment as names


def given(**changes: object) -> dict[str, str]:
    settings: dict[str, object] = {
        "job": "default/mnist",
        "worker": "mnist-worker-2-abcde",
        "rank": 2,
        "world_size": 4,
        "incarnation": 7,
        "checkpoint_dir": "/c",
        "mailbox": Path("/m"),
        "wake": "/w.sock",
    }
    return worker_environment(**{**settings, **changes})  # type: ignore[arg-type]


def test_a_worker_reads_what_the_engine_set():
    identity = WorkerIdentity.from_environment(given(standby=True, gang=False, signals=True))
    assert identity == WorkerIdentity(
        rank=2,
        world_size=4,
        job="default/mnist",
        worker="mnist-worker-2-abcde",
        incarnation=7,
        checkpoint_dir=Path("/c"),
        mailbox=Path("/m"),
        wake=Path("/w.sock"),
        standby=True,
        gang=False,
        signals=True,
    )
    assert identity.inside


def test_every_variable_is_in_the_list_by_which_engines_clean_an_environment():
    everything = given(standby=True, gang=False, signals=True, termination_log="/dev/termination-log", grace_s=30)
    reporting = {names.MONITOR_URL, names.MONITOR_TOKEN, names.MONITOR_TOKEN_FILE, names.POD, names.METRIC}
    assert set(everything) | reporting == set(STERNA_VARIABLES)
    assert set(given()) < set(STERNA_VARIABLES)


def test_torchruns_numbers_win():
    torchrun = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "r"}
    identity = WorkerIdentity.from_environment({**given(), **torchrun})
    assert (identity.rank, identity.world_size, identity.local_rank, identity.run_id) == (5, 8, 1, "r")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, (0, 1), id="alone"),
        pytest.param({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2), id="under torchrun"),
        pytest.param({"STERNA_MAILBOX": ""}, (0, 1), id="an empty variable is an absent one"),
    ],
)
def test_outside_sterna(environment, expected):
    identity = WorkerIdentity.from_environment(environment)
    assert not identity.inside
    assert (identity.rank, identity.world_size) == expected
    assert identity.checkpoint_dir is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"STERNA_RANK": "two"}, r"STERNA_RANK is 'two'; expected a whole number of at least 0", id="word"),
        pytest.param({"WORLD_SIZE": "0"}, r"WORLD_SIZE is '0'; expected a whole number of at least 1", id="none"),
        pytest.param({"RANK": "-1"}, r"RANK is '-1'", id="negative"),
        pytest.param({"RANK": "٣"}, r"RANK is '٣'", id="digits of another script"),
        pytest.param({"STERNA_RANK": "4"}, r"RANK is 4 in a world of 4; expected 0 to 3", id="beyond the world"),
    ],
)
def test_nonsense_is_named(changes, message):
    with pytest.raises(BadEnvironment, match=message):
        WorkerIdentity.from_environment({**given(), **changes})


def test_on_kubernetes_there_is_no_engine_nearby_and_a_container_that_ends():
    environment = given(wake=None, checkpoint_dir=None, termination_log="/dev/termination-log", grace_s=30.0)
    assert environment["STERNA_GRACE_S"] == "30"
    identity = WorkerIdentity.from_environment(environment)
    assert (identity.wake, identity.checkpoint_dir) == (None, None)
    assert (identity.termination_log, identity.grace_s) == (Path("/dev/termination-log"), 30.0)
    assert identity.inside


@pytest.mark.parametrize(
    ("torchrun", "expected"),
    [
        pytest.param({}, (False, 120.0), id="without torchrun"),
        pytest.param({"TORCHELASTIC_RUN_ID": "r", "PET_NNODES": "1:4"}, (True, 30.0), id="its agent kills after 30 s"),
        pytest.param({"TORCHELASTIC_RUN_ID": "r", "PET_NNODES": "4"}, (False, 30.0), id="whose members stay the same"),
        pytest.param({"PET_NNODES": "1:4"}, (False, 120.0), id="the agent itself trains nothing"),
        pytest.param(
            {"TORCHELASTIC_RUN_ID": "r", "PET_NNODES": "1:4", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "100"},
            (True, 100.0),
            id="its agent was told to wait longer",
        ),
    ],
)
def test_who_comes_and_goes_alone_and_how_much_time_there_is(torchrun, expected):
    identity = WorkerIdentity.from_environment({**given(grace_s=120), **torchrun})
    assert (identity.elastic, identity.grace_s) == expected


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_a_grace_period_that_is_none_is_named(text):
    with pytest.raises(BadEnvironment, match=r"STERNA_GRACE_S is '.*'; expected a number of seconds"):
        WorkerIdentity.from_environment({**given(), "STERNA_GRACE_S": text})
