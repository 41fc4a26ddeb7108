"""What an engine sets is what a worker reads; torchrun's own numbers win; nonsense is named."""

from pathlib import Path

import pytest

from sterna.protocol import STERNA_VARIABLES, BadEnvironment, WorkerIdentity, worker_environment


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
    assert set(given(standby=True, gang=False, signals=True)) == set(STERNA_VARIABLES)
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
