"""How jobs grow: what counts as an evaluation, what becomes of it, and that a restart finds it again."""

import asyncio
from typing import Any

import pytest

from sterna.compose.local_engine import open_local
from sterna.engines.local.api.service import LocalScheduler
from sterna.engines.local.progress import evaluations
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.model.errors import InvalidRequest
from sterna.model.growth import Category
from sterna.model.ids import JobId
from sterna.protocol import Status, WorkerPhase
from tests.engines.local.lab import config, fresh_home, lab, manifest, running, swept, toy

QUICKLY = {"judge.check-interval-s": "0.3"}


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.s = 1_000_000.0

    def wall(self) -> float:
        return self.s

    def mono(self) -> float:
        return self.s


class Asked:
    """A job in an engine that does not run: what it says is said here."""

    def __init__(self, scheduler: LocalScheduler, clock: Hands, job: LocalJob, book: Book) -> None:
        self.scheduler, self.clock, self.job, self.book = scheduler, clock, job, book
        self.step = 0

    def say(self, *, steps: int = 10, seconds: float = 1.0, **metrics: float) -> None:
        self.clock.s += seconds
        self.step += steps
        evaluations.heard(
            self.book, self.job, Status(pid=1, phase=WorkerPhase.TRAINING, step=self.step, metrics=metrics)
        )

    @property
    def made(self) -> int:
        seen = self.job.row.evaluation
        return 0 if seen is None else seen.made


@pytest.fixture
def asked(tmp_path):
    made: list[LocalScheduler] = []

    def of(annotations: dict[str, str] | None = None, **settings: Any) -> Asked:
        clock = Hands()
        scheduler = open_local(config(tmp_path / "home", clock=clock, **settings))
        made.append(scheduler)
        asyncio.run(scheduler.submit(manifest("a", ["true"], annotations=annotations), cwd="/"))
        book = scheduler._book
        return Asked(scheduler, clock, book.jobs[JobId("default/a")], book)

    yield of
    for scheduler in made:
        asyncio.run(scheduler.close(stop_jobs=False))


@pytest.mark.parametrize(
    ("annotations", "metrics", "chosen"),
    [
        pytest.param({}, {"accuracy": 1.0, "loss": 2.0, "eval_loss": 3.0}, "eval_loss", id="evaluations before losses"),
        pytest.param({}, {"accuracy": 1.0, "eval_accuracy": 2.0}, "eval_accuracy", id="evaluated accuracy before own"),
        pytest.param({}, {"accuracy": 1.0, "loss": 2.0}, "loss", id="loss before accuracy"),
        pytest.param({}, {"perplexity": 1.0}, None, id="a name that nobody knows is not judged"),
        pytest.param({"sterna.dev/metric": "perplexity"}, {"perplexity": 1.0, "loss": 2.0}, "perplexity", id="chosen"),
        pytest.param({"sterna.dev/metric": "bleu"}, {"loss": 2.0}, None, id="chosen, and not told: nothing is judged"),
    ],
)
def test_which_number_is_judged(asked, annotations, metrics, chosen):
    one = asked(annotations)
    one.say(**metrics)
    seen = one.job.row.evaluation
    assert (None if seen is None else seen.metric) == chosen


def test_a_value_that_is_only_told_again_is_no_evaluation(asked):
    """It evaluates every 60 s and tells of itself every second: standing still in between is no sign of anything."""
    one = asked()
    for number in range(5):
        for _ in range(60):
            one.say(eval_loss=10.0 - number)
    assert one.made == 5
    assert one.job.row.evaluation.growth.category is Category.PROGRESSING


def test_a_value_that_stays_much_longer_than_usual_was_evaluated_again(asked):
    one = asked()
    for number in range(5):
        one.say(steps=100, seconds=12, eval_accuracy=0.5 + 0.1 * number)
    assert one.made == 5
    for _ in range(40):
        one.say(steps=100, seconds=12, eval_accuracy=0.9)
    assert one.made > 15
    assert one.job.row.evaluation.growth.category is Category.CONVERGED


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_no_number_is_passed_over(asked, value):
    one = asked()
    one.say(loss=2.0)
    one.say(loss=value)
    one.say(loss=1.0)
    assert one.made == 2


def test_another_metric_is_judged_from_the_beginning(asked):
    one = asked()
    for number in range(6):
        one.say(seconds=12, loss=3.0 - 0.1 * number)
    one.say(seconds=12, loss=2.0, eval_loss=50.0)
    seen = one.job.row.evaluation
    assert (seen.metric, seen.made, seen.growth.score) == ("eval_loss", 1, None)


def test_a_job_that_reports_elsewhere_is_not_judged_by_its_status_as_well(asked):
    one = asked({"sterna.dev/monitor": "true"})
    one.say(loss=2.0)
    assert one.made == 0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("threshold", "name=value"),
        ("threshold=high", "threshold"),
        ("thresold=0.2", "thresold"),
        ("threshold=-1", "at least 0"),
    ],
)
def test_a_judge_that_cannot_be_meant_is_refused_at_submission(asked, text, match):
    one = asked()
    manifest_text = manifest("b", ["true"], annotations={"sterna.dev/judge": text})
    with pytest.raises(InvalidRequest, match=match):
        asyncio.run(one.scheduler.submit(manifest_text, cwd="/"))


def test_a_job_that_converges_is_told_of_in_numbers_and_a_restart_finds_it():
    async def story() -> None:
        home = fresh_home()
        settings = config(home, rebalance=[], rebalance_settings=QUICKLY)
        try:
            async with running(settings, stop_jobs=False) as engine:
                await engine.submit(toy("a", "loss=0.1", steps=100_000, step_s=0.01))
                event = await engine.until_event("Converged", "default/a")
                assert event["data"]["metric"] == "loss"
                assert event["data"]["value"] == pytest.approx(1.0, abs=0.1)
                assert event["data"]["score"] <= event["data"]["threshold"] == 0.1
                assert event["data"]["before"] == "Watching"
                growth = (await engine.job("a"))["growth"]
                assert growth["category"] == "Converged"
            async with running(config(home)) as engine:
                again = (await engine.job("a"))["growth"]
                assert (again["category"], again["metric"]) == ("Converged", "loss")
                assert again["evaluations"] >= growth["evaluations"] - 10
                view = engine.scheduler._life.engine.snapshot()
                seen = view.by_id[JobId("default/a")].growth
                assert seen is not None
                assert seen.category is Category.CONVERGED
                assert (await engine.scheduler.policy())["rebalanceSettings"] == QUICKLY
        finally:
            await swept(home)

    asyncio.run(story())


def test_an_accuracy_that_keeps_rising_never_converges():
    async def story() -> None:
        async with lab(rebalance=[], rebalance_settings=QUICKLY) as engine:
            wish = {"sterna.dev/metric": "accuracy"}
            await engine.submit(toy("a", "loss=0.1", steps=100_000, step_s=0.01, annotations=wish))

            async def judged_often() -> bool:
                growth = (await engine.job("a"))["growth"]
                return growth is not None and int(growth["evaluations"]) >= 12

            await engine.until(judged_often, "it is judged")
            growth = (await engine.job("a"))["growth"]
            assert (growth["metric"], growth["category"]) == ("accuracy", "Progressing")
            assert growth["score"] > 0.1

    asyncio.run(story())
