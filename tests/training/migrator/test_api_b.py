"""`MigratableVariable(x)`: by position or by key, and never into the wrong variable."""

import pytest

from sterna.training.errors import Mismatch, Unregistrable
from tests.needs import needs
from tests.training.migrator.workshop import Stub, launch, until

torch = needs("torch")


def test_voda_41_it_returns_the_variable_itself(tmp_path):
    migrator = launch(tmp_path)
    for variable in (Stub(), {"epoch": 1}, [1], torch.nn.Linear(1, 1), torch.zeros(1)):
        assert migrator.variable(variable) is variable
    assert migrator.signal == "init"


@pytest.mark.parametrize("keys", [(None, None, None), ("model", "metrics", "history"), (None, "metrics", None)])
def test_voda_41_variables_go_through_a_migration(tmp_path, keys):
    before = launch(tmp_path)
    for variable, key in zip((Stub(3), {"epoch": 4}, [1, 2]), keys, strict=True):
        before.variable(variable, key=key)
    before.save_ckpt()
    after = launch(tmp_path)
    model, metrics = Stub(), {"epoch": -1}
    history: list[int] = []
    for variable, key in zip((model, metrics, history), keys, strict=True):
        after.variable(variable, key=key)
    assert (model.value, metrics, history) == (3, {"epoch": 4}, [1, 2])
    assert after.signal == "init"


def test_voda_41_by_position_the_file_is_a_list_as_it_always_was(tmp_path):
    migrator = launch(tmp_path)
    migrator.variable(Stub(3))
    migrator.variable({"epoch": 4})
    migrator.save_ckpt()
    assert torch.load(tmp_path / "migration.pth", weights_only=True) == [{"value": 3}, {"epoch": 4}]


def test_voda_41_a_list_of_pytorchjob_migration_is_loaded(tmp_path):
    torch.save([{"value": 3}, {"epoch": 4}], tmp_path / "migration.pth")
    (tmp_path / "signal").write_text("resume")
    migrator = launch(tmp_path)
    model, metrics = migrator.variable(Stub()), migrator.variable({"epoch": -1})
    assert (model.value, metrics, migrator.signal) == (3, {"epoch": 4}, "init")


@pytest.mark.parametrize("wrong", [3, 0.5, "epoch", None, (1, 2), {1, 2}, object()])
def test_voda_41_an_unsupported_type_raises_instead_of_shifting_those_behind_it(tmp_path, wrong):
    migrator = launch(tmp_path)
    with pytest.raises(Unregistrable, match="would shift all that follow"):
        migrator.variable(wrong)


def test_voda_41_variables_in_another_order_are_refused(tmp_path):
    before = launch(tmp_path)
    before.variable(Stub(3))
    before.variable({"epoch": 4})
    before.save_ckpt()
    after = launch(tmp_path)
    metrics = {"epoch": -1}
    with pytest.raises(Mismatch, match="'0' was saved as state and is a dict"):
        after.variable(metrics)
    assert (metrics, after.signal) == ({"epoch": -1}, "resume")


def test_voda_41_a_program_that_changed_its_form_is_refused(tmp_path):
    before = launch(tmp_path)
    before.variable({"epoch": 4})
    before.save_ckpt()
    with pytest.raises(Mismatch, match="saved by position"):
        launch(tmp_path).variable({"epoch": -1}, key="metrics")


def test_voda_41_a_key_is_used_once(tmp_path):
    migrator = launch(tmp_path)
    migrator.variable({"epoch": 4}, key="metrics")
    with pytest.raises(Mismatch, match="already a variable with the key 'metrics'"):
        migrator.variable({"epoch": 4}, key="metrics")


def test_voda_41_further_variables_are_simply_appended(tmp_path):
    before = launch(tmp_path)
    before.variable({"epoch": 4})
    before.save_ckpt()
    after = launch(tmp_path)
    metrics, history = after.variable({"epoch": -1}), after.variable([7])
    assert (metrics, history) == ({"epoch": 4}, [7])
    after.save_ckpt()
    again = launch(tmp_path)
    assert [again.variable({}), again.variable([])] == [{"epoch": 4}, [7]]


def test_voda_41_a_checkpoint_that_could_not_be_taken_up_is_not_acknowledged(tmp_path):
    before = launch(tmp_path)
    before.variable(torch.nn.Linear(2, 2))
    before.variable({"epoch": 4})
    before.save_ckpt()
    after = launch(tmp_path)
    with pytest.raises(RuntimeError, match="size mismatch"):
        after.variable(torch.nn.Linear(3, 2))
    assert after.signal == "resume"
    again = launch(tmp_path)
    again.variable(torch.nn.Linear(2, 2))
    assert again.signal == "resume", "not all of it has been taken up yet"
    assert again.variable({"epoch": -1}) == {"epoch": 4}
    assert again.signal == "init"


@pytest.mark.parametrize("steps_are_seen", [False, True])
def test_voda_41_a_variable_that_is_no_longer_there_does_not_keep_the_others_from_being_saved(
    tmp_path, monkeypatch, steps_are_seen
):
    before = launch(tmp_path)
    before.variable({"epoch": 4})
    before.variable([1])
    before.save_ckpt()
    monkeypatch.setattr("sterna.training.migrator.shim._NO_MORE_VARIABLES_AFTER_S", 0.0)
    after = launch(tmp_path)
    metrics = after.variable({"epoch": -1})
    assert metrics == {"epoch": 4}
    if steps_are_seen:
        after.step()
    until(lambda: after.signal == "init", "it is taken as loaded")
    metrics["epoch"] = 5
    after.save_ckpt()
    assert launch(tmp_path).variable({}) == {"epoch": 5}


def test_voda_41_it_listens_from_the_first_call_on(tmp_path):
    migrator = launch(tmp_path)
    metrics = migrator.variable({"epoch": 4})
    (tmp_path / "signal").write_text("save")
    until(lambda: migrator.signal == "resume", "the listener saves")
    metrics["epoch"] = 5
    (tmp_path / "signal").write_text("save")
    until(lambda: migrator.signal == "resume", "the listener saves again")
    assert launch(tmp_path).variable({}) == {"epoch": 5}
