"""One process migrates again and again, unasked too; damage and full disks leave the last good checkpoint alone."""

import json
import resource

import pytest

from sterna.training.migrator.shim import Migrator
from tests.needs import needs
from tests.training.migrator.workshop import Stub, environment, launch, listed, run_hook, until
from tests.waiting import paced, stays

torch = needs("torch")


def test_voda_47_second_and_third_save_in_one_process_work(tmp_path):
    model, metrics = torch.nn.Linear(2, 1), {"epoch": 0}
    migrator = launch(tmp_path, model=model, metrics=metrics)
    for epoch in (1, 2, 3):
        metrics["epoch"] = epoch
        with torch.no_grad():
            model.weight.fill_(epoch)
        migrator.save_ckpt()
        content = torch.load(tmp_path / "migration.pth", weights_only=True)
        assert content["metrics"] == {"epoch": epoch}
        assert content["model"]["weight"].tolist() == [[epoch, epoch]]
        previous = torch.load(tmp_path / "migration.pth.previous", weights_only=True) if epoch > 1 else None
        assert previous is None or previous["metrics"] == {"epoch": epoch - 1}


def test_voda_47_the_hook_can_be_run_again_and_again(tmp_path):
    metrics = {"epoch": 0}
    migrator = launch(tmp_path, metrics=metrics)
    migrator.listening(interval=0.01)
    for epoch in (1, 2, 3):
        metrics["epoch"] = epoch
        assert run_hook(tmp_path).returncode == 0
        assert torch.load(tmp_path / "migration.pth", weights_only=True)["metrics"] == {"epoch": epoch}
    again = {"epoch": 0}
    launch(tmp_path, metrics=again).load_ckpt()
    assert again == {"epoch": 3}


def test_voda_47_three_migrations_of_one_job(tmp_path):
    for launched in range(1, 5):
        metrics = {"epoch": 0}
        migrator = launch(tmp_path, metrics=metrics)
        assert migrator.resume == (launched > 1)
        if migrator.resume:
            migrator.load_ckpt()
        assert metrics["epoch"] == launched - 1
        metrics["epoch"] += 1
        migrator.save_ckpt()


def _shorten(path):
    path.write_bytes(path.read_bytes()[:-100])


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [_shorten, _flip, lambda path: path.unlink()], ids=["short", "one bit", "gone"])
def test_voda_42_a_damaged_newest_checkpoint_gives_way_to_the_one_before(tmp_path, damage, capsys):
    metrics = {"epoch": 0}
    migrator = launch(tmp_path, metrics=metrics)
    for metrics["epoch"] in (1, 2):
        migrator.save_ckpt()
    damage(tmp_path / "migration.pth")
    again = {"epoch": 0}
    second = launch(tmp_path, metrics=again)
    assert second.resume
    second.load_ckpt()
    assert again == {"epoch": 1}
    damaged = (tmp_path / "migration.pth").exists()
    assert ("is not what was saved there" in capsys.readouterr().out) == damaged
    again["epoch"] = 5
    second.save_ckpt()  # must not put the damaged one in the place of the good one
    assert (tmp_path / "migration.pth.damaged").exists() == damaged
    assert torch.load(tmp_path / "migration.pth.previous", weights_only=True)["metrics"] == {"epoch": 1}


def test_voda_42_when_both_are_damaged_the_job_starts_anew_and_says_why(tmp_path, capsys):
    migrator = launch(tmp_path, metrics={"epoch": 1})
    migrator.save_ckpt()
    migrator.save_ckpt()
    for name in ("migration.pth", "migration.pth.previous"):
        _flip(tmp_path / name)
    assert not launch(tmp_path, metrics={}).resume
    said = capsys.readouterr().out
    assert said.count("is not what was saved there") == 2
    assert "the signal says resume and there is no complete checkpoint" in said


def test_voda_42_a_full_disk_is_said_and_the_last_good_checkpoint_stays(tmp_path, capsys):
    """The limit on the size of files stands in for the disk: writing fails in the middle."""
    tensor = torch.zeros(100_000)
    migrator = launch(tmp_path, tensor=tensor)
    migrator.save_ckpt()
    good = (tmp_path / "migration.pth").read_bytes()
    migrator.listening(interval=0.01)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        tensor.fill_(1)
        (tmp_path / "signal").write_text("save")
        until(lambda: "could not save ckpt" in (said := capsys.readouterr().out) and said, "the failure is said")
        assert (tmp_path / "migration.pth").read_bytes() == good
        assert not list(tmp_path.glob(".migration*"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    until(lambda: migrator.signal == "resume", "it is tried again by itself")
    assert torch.load(tmp_path / "migration.pth", weights_only=True)["tensor"].sum() == 100_000


def test_voda_47_saves_that_nobody_asked_for_outlive_a_lost_node(tmp_path):
    metrics = {"epoch": 7}
    migrator = listed(Migrator(environment=environment(tmp_path, MIGRATION_EVERY_S="0.01")))
    migrator.register("metrics", metrics)
    migrator.listening(interval=0.01)
    until(lambda: migrator.signal == "resume", "a periodic save")
    again = {"epoch": 0}
    launch(tmp_path, metrics=again).load_ckpt()  # no hook was ever run
    assert again == {"epoch": 7}


def test_voda_47_saves_that_nobody_asked_for_keep_to_their_share_of_the_time(tmp_path):
    class Slow(Stub):
        def state_dict(self):
            paced(0.05)
            return super().state_dict()

    migrator = listed(Migrator(environment=environment(tmp_path, MIGRATION_EVERY_S="0.001")))
    migrator.register("model", Slow(1))
    migrator.listening(interval=0.001)
    until(lambda: (tmp_path / "migration.pth").exists(), "the first one comes when it is due")

    def is_the_first() -> bool:
        (kept,) = json.loads((tmp_path / "migration.pth.json").read_text())["generations"]
        return bool(kept["number"] == 1)

    stays(is_the_first, "0.1 s of saving pays for 10 s of training", for_s=1.0)
