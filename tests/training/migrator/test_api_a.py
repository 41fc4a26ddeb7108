"""`migrator.register / listening / resume / signal / save_ckpt / load_ckpt`, one row of the table after the other."""

import subprocess
import sys
import warnings
from collections import OrderedDict
from typing import Any

import pytest

from sterna.training.errors import Mismatch, NotEverybodyCame, RestoreFailed, Superseded, TrainingError, Unregistrable
from sterna.training.migrator.shim import Migrator
from tests.needs import needs
from tests.training.migrator.workshop import SOURCES, Stub, environment, launch, until

torch = needs("torch")


def test_voda_40_importing_it_changes_nothing(tmp_path):
    script = (
        "import os, sys, threading\n"
        "from sterna.training import migrator\n"
        "from sterna.training.migrator import MigratableVariable\n"
        "names = 'register listening save_ckpt load_ckpt step finish'.split()\n"
        "assert all(callable(getattr(migrator, name)) for name in names) and callable(MigratableVariable)\n"
        "assert migrator.rank is None and 'torch' not in sys.modules and threading.active_count() == 1\n"
        "assert os.listdir('.') == []\n"
        "migrator.register('metrics', {})\n"
        "assert os.listdir('.') == []\n"
        "assert (migrator.signal, migrator.resume) == ('init', False)\n"
        "assert sorted(os.listdir('ckpts')) == ['signal', 'signal.state.json']\n"
        "try: migrator.nonsense\n"
        "except AttributeError: pass\n"
        "else: sys.exit('anything goes')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_voda_40_the_first_use_says_init_only_if_nothing_was_said(tmp_path):
    assert launch(tmp_path).signal == "init"
    (tmp_path / "signal").write_text("resume\n")
    (tmp_path / "migration.pth").unlink(missing_ok=True)
    torch.save({}, tmp_path / "migration.pth")
    again = launch(tmp_path)
    assert (again.signal, again.resume) == ("resume", True)


def test_voda_40_a_stub_goes_through_save_and_load(tmp_path):
    first = launch(tmp_path, model=Stub(3), metrics={"epoch": 4, "best_acc": 85.56}, history=[1, 2])
    first.save_ckpt()
    assert (first.signal, first.resume) == ("resume", True)
    model, metrics, history = Stub(), {"epoch": -1, "best_acc": 0.0, "more": 1}, [9]
    second = launch(tmp_path, model=model, metrics=metrics, history=history)
    assert second.resume
    second.load_ckpt()
    assert (model.value, metrics, history) == (3, {"epoch": 4, "best_acc": 85.56, "more": 1}, [1, 2])
    assert (second.signal, second.resume) == ("init", False)


def test_voda_40_torch_objects_go_through_save_and_load(tmp_path):
    def program():
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        return model, optimizer, torch.zeros(2)

    model, optimizer, best = program()
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    best.fill_(5)
    launch(tmp_path, model=model, optimizer=optimizer, best=best).save_ckpt()
    model_again, optimizer_again, best_again = program()
    again = launch(tmp_path, model=model_again, optimizer=optimizer_again, best=best_again)
    again.load_ckpt(map_location="cpu")
    for (name, was), now in zip(model.state_dict().items(), model_again.state_dict().values(), strict=True):
        assert torch.equal(was, now), name
    state, state_again = optimizer.state_dict()["state"], optimizer_again.state_dict()["state"]
    assert all(torch.equal(state[0][name], state_again[0][name]) for name in ("step", "exp_avg", "exp_avg_sq"))
    assert torch.equal(best, best_again)


def test_voda_40_the_file_is_what_it_always_was_and_loads_with_weights_only(tmp_path):
    model = torch.nn.Linear(2, 1)
    launch(tmp_path, model=model, metrics={"epoch": 1}).save_ckpt()
    content = torch.load(tmp_path / "migration.pth", weights_only=True)
    assert sorted(content) == ["metrics", "model"]
    assert content["metrics"] == {"epoch": 1}
    assert torch.equal(content["model"]["weight"], model.weight)


def test_voda_40_a_file_of_pytorchjob_migration_is_loaded(tmp_path):
    torch.save({"model": {"value": 8}, "metrics": {"epoch": 2}}, tmp_path / "migration.pth")
    (tmp_path / "signal").write_text("resume")
    model, metrics = Stub(), {"epoch": -1}
    migrator = launch(tmp_path, model=model, metrics=metrics)
    assert migrator.resume
    migrator.load_ckpt()
    assert (model.value, metrics, migrator.signal) == (8, {"epoch": 2}, "init")


def test_voda_40_resume_is_read_anew_each_time(tmp_path):
    migrator = launch(tmp_path, model=Stub())
    seen = [migrator.resume]
    for word in ("resume", "init", "resume\n"):
        (tmp_path / "signal").write_text(word)
        seen.append(migrator.resume)
    assert seen == [False, True, False, True]


def test_voda_40_a_key_that_the_file_lacks_is_a_key_error_and_changes_nothing(tmp_path):
    launch(tmp_path, metrics={"epoch": 1}, spare=[1]).save_ckpt()
    metrics, model = {"epoch": -1}, Stub(7)
    migrator = launch(tmp_path, metrics=metrics, model=model)
    with pytest.raises(KeyError, match="'model' is not in the checkpoint"):
        migrator.load_ckpt()
    assert (metrics, model.value, migrator.signal) == ({"epoch": -1}, 7, "resume")


def test_voda_40_a_key_that_nobody_registered_is_passed_over(tmp_path):
    launch(tmp_path, metrics={"epoch": 1}, spare=[1]).save_ckpt()
    metrics = {"epoch": -1}
    launch(tmp_path, metrics=metrics).load_ckpt()
    assert metrics == {"epoch": 1}


def test_voda_40_what_cannot_be_changed_in_place_is_warned_about_and_left(tmp_path):
    with pytest.warns(UserWarning, match="'epoch' is a int"):
        migrator = launch(tmp_path, epoch=3, metrics={"epoch": 3})
    migrator.save_ckpt()
    metrics = {"epoch": -1}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        launch(tmp_path, epoch=-1, metrics=metrics).load_ckpt()
    assert metrics == {"epoch": 3}
    assert any("stays as it is" in str(one.message) for one in said)


def test_voda_40_registering_a_key_again_replaces_the_object(tmp_path):
    migrator = launch(tmp_path, model=Stub(1))
    migrator.register("model", Stub(2))
    migrator.save_ckpt()
    model = Stub()
    launch(tmp_path, model=model).load_ckpt()
    assert model.value == 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(lambda m: m.register(3, Stub()), Unregistrable, "the key 3 is a int", id="a key that is no text"),
        pytest.param(lambda m: m.listening(interval=0), TrainingError, "interval is 0", id="an interval of nothing"),
        pytest.param(lambda m: m.load_ckpt(), RestoreFailed, "no complete checkpoint", id="loading where nothing is"),
    ],
)
def test_voda_40_wrong_use_is_refused_in_words(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call(launch(tmp_path))


def test_voda_40_something_else_under_the_same_key_is_refused_before_anything_changes(tmp_path):
    launch(tmp_path, a={"epoch": 1}, b=Stub(2)).save_ckpt()
    a, b = Stub(0), {"epoch": 0}
    with pytest.raises(Mismatch, match="'a' was saved as dict and is a state"):
        launch(tmp_path, a=a, b=b).load_ckpt()
    assert (a.value, b) == (0, {"epoch": 0})


def test_voda_40_objects_that_would_have_to_be_unpickled_are_loaded_only_on_demand(tmp_path):
    launch(tmp_path, metrics={"when": Exception("odd")}).save_ckpt()
    metrics: dict[str, Any] = {}
    migrator = launch(tmp_path, metrics=metrics)
    with pytest.raises(RestoreFailed, match="weights_only=False"):
        migrator.load_ckpt()
    assert migrator.resume, "a checkpoint that was not loaded is still to be loaded"
    migrator.load_ckpt(weights_only=False)
    assert str(metrics["when"]) == "odd"


def test_voda_40_numbers_of_numpy_in_the_metrics_load_as_they_are(tmp_path):
    numpy = needs("numpy")
    launch(tmp_path, metrics={"acc": numpy.float64(0.5), "n": numpy.int32(3), "all": numpy.arange(4.0)}).save_ckpt()
    metrics: dict[str, Any] = {}
    launch(tmp_path, metrics=metrics).load_ckpt()
    assert (metrics["acc"], metrics["n"], metrics["all"].tolist()) == (0.5, 3, [0.0, 1.0, 2.0, 3.0])


def test_voda_40_an_array_is_restored_in_place(tmp_path):
    numpy = needs("numpy")
    launch(tmp_path, weights=numpy.full(3, 2.0)).save_ckpt()
    weights = numpy.zeros(3)
    launch(tmp_path, weights=weights).load_ckpt()
    assert weights.tolist() == [2.0, 2.0, 2.0]
    other = launch(tmp_path, weights=numpy.zeros(4))
    with pytest.raises(Mismatch, match="shape"):
        other.load_ckpt()


def wrapped(module):
    """As DistributedDataParallel and DataParallel name things."""
    return torch.nn.DataParallel(module)


def compiled(module):
    return torch.nn.ModuleDict({"_orig_mod": module})


@pytest.mark.parametrize(
    ("saved_as", "loaded_as"),
    [
        pytest.param(wrapped, lambda module: module, id="from several processes to one"),
        pytest.param(lambda module: module, wrapped, id="from one process to several"),
        pytest.param(wrapped, wrapped, id="from several to several"),
        pytest.param(compiled, wrapped, id="from compiled to several"),
        pytest.param(lambda module: wrapped(compiled(module)), lambda module: module, id="from both to neither"),
    ],
)
def test_voda_40_a_checkpoint_fits_whatever_wraps_the_module(tmp_path, saved_as, loaded_as):
    was, now = (torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)) for _ in range(2))
    launch(tmp_path, model=saved_as(was)).save_ckpt()
    launch(tmp_path, model=loaded_as(now)).load_ckpt()
    for (name, before), after in zip(was.state_dict().items(), now.state_dict().values(), strict=True):
        assert torch.equal(before, after), name


def test_voda_40_a_module_that_does_not_fit_is_refused_by_torch_itself(tmp_path):
    launch(tmp_path, model=torch.nn.Linear(3, 2)).save_ckpt()
    with pytest.raises(RuntimeError, match="size mismatch"):
        launch(tmp_path, model=torch.nn.Linear(4, 2)).load_ckpt()
    with pytest.raises(RuntimeError, match="Missing key"):
        launch(tmp_path, model=torch.nn.Sequential(OrderedDict(a=torch.nn.Linear(3, 2)))).load_ckpt()


def test_voda_40_listening_saves_when_the_signal_says_so(tmp_path):
    migrator = launch(tmp_path, model=Stub(5))
    migrator.listening(interval=0.01)
    (tmp_path / "signal").write_text("save\n")  # as a person would
    until(lambda: migrator.signal == "resume", "the listener saves")
    model = Stub()
    launch(tmp_path, model=model).load_ckpt()
    assert model.value == 5


def test_voda_40_only_rank_0_writes(tmp_path):
    migrator = Migrator(environment=environment(tmp_path), rank=lambda: 0)
    migrator.register("model", Stub(1))
    migrator.save_ckpt()
    before = (tmp_path / "migration.pth").stat().st_mtime_ns
    names = sorted(path.name for path in tmp_path.iterdir())
    other = Migrator(environment=environment(tmp_path, RANK="1", WORLD_SIZE="2", MIGRATION_MEET_S="0.1"))
    other.register("model", Stub(2))
    other.listening()
    other.save_ckpt()
    other.finish()
    with pytest.raises(NotEverybodyCame, match="every rank must ask"):  # nobody leads: bounded, and said
        _ = other.resume
    assert (tmp_path / "migration.pth").stat().st_mtime_ns == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == names


def test_voda_40_whoever_was_taken_over_saves_no_more(tmp_path):
    old = launch(tmp_path, model=Stub(1))
    old.save_ckpt()
    new = launch(tmp_path, model=Stub(2))
    new.load_ckpt()
    new.save_ckpt()
    with pytest.raises(Superseded, match="has taken over"):
        old.save_ckpt()
    model = Stub()
    launch(tmp_path, model=model).load_ckpt()
    assert model.value == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".migration")]


@pytest.mark.parametrize("traceback", [None, ValueError("a bug")], ids=["it ended", "a traceback ended it"])
def test_voda_40_a_program_that_a_traceback_ended_is_gone_on_with(tmp_path, monkeypatch, traceback):
    launch(tmp_path, model=Stub(1)).save_ckpt()
    program = launch(tmp_path, model=Stub())
    program.load_ckpt()
    monkeypatch.setattr(sys, "last_value", traceback, raising=False)  # what the interpreter leaves behind
    program._at_exit()
    assert launch(tmp_path).resume == (traceback is not None)


def test_voda_40_the_end_of_training_is_told_from_a_crash(tmp_path):
    first = launch(tmp_path, model=Stub(1))
    first.save_ckpt()
    second = launch(tmp_path, model=Stub())
    second.load_ckpt()
    assert launch(tmp_path).resume, "it was loaded, and its trainer is gone: go on from there"
    third = launch(tmp_path, model=Stub())
    third.load_ckpt()
    third.finish()
    assert not launch(tmp_path).resume, "training was over"
