"""Outside Sterna the same script runs as if the SDK were not there; importing it changes nothing anywhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sterna import training
from sterna.protocol import STERNA_VARIABLES
from sterna.training import Shards

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> training.Run:
    for name in (*STERNA_VARIABLES, "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sterna.training.run._current", None)
    return training.attach()


def test_every_call_does_the_polite_nothing(run):
    losses = [1.0]
    run.register(losses=losses)
    assert not run.inside
    assert (run.rank, run.world_size, run.incarnation) == (0, 1, 0)
    assert run.restore() is None
    walked = []
    for epoch, batch in run.steps("abc", epochs=2):
        walked.append((epoch, batch))
        run.report(loss=1.0, nonsense="ignored as well")
        run.commit()
        assert not run.should_stop()
    assert walked == [(0, "a"), (0, "b"), (0, "c"), (1, "a"), (1, "b"), (1, "c")]
    assert (run.step, run.epoch) == (6, 2)
    assert not run.should_stop()
    run.listen_for_signals()
    run.finish()
    run.finish()


def test_attaching_again_gives_the_same_run_until_it_is_finished(run):
    assert training.attach() is run
    with run:
        pass
    assert training.attach() is not run


def test_a_plain_torchrun_gives_the_ranks_and_shards_are_cut_by_them(run, monkeypatch):
    given = []
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "3")
        monkeypatch.setattr("sterna.training.run._current", None)
        one = training.attach()
        assert (one.rank, one.world_size) == (rank, 3)
        given.append([batch for _, batch in one.steps(Shards(samples=20, batch=7, seed=1))])
    together = [sample for parts in zip(*given, strict=True) for part in parts for sample in part]
    assert together == list(Shards(samples=20, batch=7, seed=1).order(0))


def test_steps_go_on_where_the_last_loop_ended(run):
    """A loop for each epoch, with something in between."""
    walked = []
    for epoch in range(3):
        walked += [(epoch, batch) for epoch, batch in run.steps([1, 2], epochs=epoch + 1)]
    assert walked == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert list(run.steps([1, 2], epochs=3)) == []


@pytest.mark.parametrize(
    ("data", "epochs", "message"),
    [
        pytest.param(None, 1, "steps\\(\\) was given None; expected Shards", id="nothing"),
        pytest.param(True, 1, "steps\\(\\) was given True", id="a truth value"),
        pytest.param(-1, 1, "expected a number of steps of at least 0", id="a negative number"),
        pytest.param(1.5, 1, "steps\\(\\) was given a float", id="half a step"),
        pytest.param([1], -1, "epochs is -1; expected a whole number of at least 0, or None", id="negative epochs"),
        pytest.param([1], 1.0, "epochs is 1.0", id="epochs that are no whole number"),
    ],
)
def test_what_cannot_be_walked_is_refused_at_once(run, data, epochs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run.steps(data, epochs=epochs)


def test_endless_walking_through_nothing_is_noticed(run):
    with pytest.raises(ValueError, match="epoch 0 had no batches at all"):
        list(run.steps([], epochs=None))
    walking = run.steps(iter([1, 2]), epochs=5)
    assert [next(walking), next(walking)] == [(0, 1), (0, 2)]
    with pytest.raises(ValueError, match="epoch 1 had no batches at all; give steps"):
        next(walking)


def test_more_ranks_than_samples_in_a_batch_is_refused(run, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "9")
    monkeypatch.setattr("sterna.training.run._current", None)
    with pytest.raises(ValueError, match="fewer samples in a batch than there are ranks"):
        training.attach().steps(Shards(samples=20, batch=8))


IMPORT = """
import json, logging, signal, sys, threading
before = {number: signal.getsignal(number) for number in signal.valid_signals()}
modules = set(sys.modules)
import sterna.training
print(json.dumps({
    "threads": threading.active_count(),
    "signals": [str(n) for n in signal.valid_signals() if signal.getsignal(n) != before[n]],
    "handlers": len(logging.getLogger().handlers) + len(logging.getLogger("sterna").handlers),
    "foreign": sorted({name.partition(".")[0] for name in set(sys.modules) - modules}
                      - set(sys.stdlib_module_names) - {"sterna"}),
    "sterna": sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("sterna.")}),
}))
"""


def test_importing_starts_nothing_and_needs_nothing_but_the_standard_library():
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(REPOSITORY / 'src')!r})\n{IMPORT}"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    assert found == {
        "threads": 1,
        "signals": [],
        "handlers": 0,
        "foreign": [],
        "sterna": ["sterna.protocol", "sterna.training"],
    }
