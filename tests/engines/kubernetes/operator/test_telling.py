"""What monitors tell of a job, folded: who speaks, how fast it goes, what is learned and what is worth a write."""

import json
from dataclasses import replace

import pytest

from sterna.engines.kubernetes.progress.job_reports import SILENT_S, Speaker, Told
from sterna.engines.kubernetes.progress.speed_codec import is_worth_keeping, knowledge_data, knowledge_of
from sterna.engines.kubernetes.progress.training_facts import Lessons, growth_of, usable_judge
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.status.standing import Progress, Reported, Standing
from sterna.engines.kubernetes.world.job_value import value_of
from sterna.lifecycle.growth_news import JUDGE
from sterna.model.errors import InvalidRequest
from sterna.model.growth import Category, Growth
from sterna.model.ids import NodeId
from sterna.model.jobs import Job, JobSpec, ProgressPoint
from sterna.model.judging import Judge, Judged
from sterna.model.learning import Knowledge, ThroughputModel
from sterna.model.phases import Phase
from sterna.model.workload import Contract
from sterna.protocol.reports import Report, Usage
from tests.engines.kubernetes.reconcile.world import World, workers, workload

NOW_S = 1_700_000_000.0
FIRST, SECOND = Speaker((2, 0), "uid-0"), Speaker((2, 1), "uid-1")
GANG = workload(Contract.RESTART, workers=(1, 4))


def told_nothing() -> Told:
    return Told(judged=Judged.fresh(Judge(check_interval_s=1.0)))


def report(at_s: float, *, value: float | None = None, units: float | None = None, metric: str = "") -> Report:
    return Report("default/job1-worker-0", int(at_s * 1e6) + 1, NOW_S + at_s, value, metric, units_done=units)


def hearing(told: Told, *reports: Report, speaker: Speaker = FIRST, workers: int = 1) -> Told:
    for one in reports:
        told = told.hearing(speaker, one, workers=workers, now_s=NOW_S + 10_000)
    return told


def steps(*moments: float, per_s: float = 10.0) -> list[Report]:
    return [report(at_s, units=at_s * per_s) for at_s in moments]


# -- who speaks


def test_the_first_worker_speaks_and_others_are_not_mixed_in():
    told = hearing(told_nothing(), report(0, value=5.0, units=10))
    assert hearing(told, report(1, value=900.0, units=2), speaker=SECOND) is told


def test_what_the_monitor_measured_makes_growth_per_cpu_and_nobody_a_speaker():
    used = Report("default/job1-worker-0", 0, NOW_S, usage=Usage(cpu=2.0))
    assert hearing(told_nothing(), used).speaker is None
    values = [report(at_s, value=100.0 / (1 + at_s)) for at_s in (0, 1, 2)]
    told = hearing(hearing(told_nothing(), values[0]), used, *values[1:])
    growth = told.judged.growth
    assert growth.score is not None
    assert growth.efficiency == pytest.approx(growth.score / 2.0)
    assert hearing(told, used, speaker=SECOND) is told


def test_somebody_else_speaks_once_the_first_is_silent():
    told = hearing(told_nothing(), report(0, units=10))
    later = hearing(told, report(SILENT_S + 1, units=2), speaker=SECOND)
    assert (later.speaker, later.units_done) == (SECOND, 2)


def test_the_first_worker_takes_over_as_soon_as_it_reports():
    told = hearing(hearing(told_nothing(), report(0, units=10), speaker=SECOND), report(1, units=11))
    assert told.speaker == FIRST


def test_a_node_whose_clock_is_ahead_does_not_silence_those_that_come_after():
    ahead = Report("default/job1-worker-0", 1, NOW_S + 3600, value=1.0)
    told = told_nothing().hearing(FIRST, ahead, workers=1, now_s=NOW_S)
    assert told.heard_s == NOW_S


# -- how fast


def test_speed_is_measured_between_reports_that_are_far_enough_apart():
    told = hearing(told_nothing(), *steps(0, 1, 2, 3, 4))
    assert [point.unit_s for point in told.points] == [pytest.approx(0.1)] * 2
    assert told.model.seen[0].workers == 1


@pytest.mark.parametrize(
    "interruption",
    [
        pytest.param(lambda told: hearing(told, report(1, units=30), workers=2), id="another size"),
        pytest.param(lambda told: hearing(told, report(1, units=30), speaker=Speaker((2, 0), "new")), id="another pod"),
        pytest.param(lambda told: hearing(told, report(1, units=3)), id="it went back to a checkpoint"),
    ],
)
def test_nothing_is_measured_over_an_interruption(interruption):
    told = interruption(hearing(told_nothing(), report(0, units=10)))
    assert told.points == ()
    assert told.mark is not None
    assert told.mark.units == told.units_done


def test_epochs_count_where_the_program_counts_nothing_else():
    epochs = [Report("default/job1", number, NOW_S + 60.0 * number, epoch=number) for number in (1, 2, 3)]
    assert hearing(told_nothing(), *epochs).points[-1].unit_s == pytest.approx(60.0)


# -- how it grows


def test_a_job_that_moves_goes_on_with_its_history():
    told = hearing(told_nothing(), *[report(at_s, value=1 + 2 * 0.25**at_s) for at_s in range(10)])
    assert told.judged.growth.category is Category.CONVERGED
    moved = hearing(told, report(40, value=1.0), report(41, value=1.0), speaker=Speaker((2, 0), "new"))
    assert moved.judged.growth.category is Category.CONVERGED


def test_values_of_another_name_are_another_curve():
    told = hearing(told_nothing(), *[report(at_s, value=1 + 2 * 0.25**at_s, metric="loss") for at_s in range(10)])
    other = hearing(told, report(10, value=70.0, metric="eval_accuracy"))
    assert (growth_of(told) is not None, growth_of(other), other.metric) == (True, None, "eval_accuracy")


# -- what a decision is told


def lessons() -> Lessons:
    return Lessons(lambda _: "a100")


def running(**standing: object) -> World:
    world = World(GANG).started(*workers(1))
    recorded = world.look().standing
    return replace_standing(world, replace(recorded, **standing))  # type: ignore[arg-type]


def replace_standing(world: World, standing: Standing) -> World:
    world.fields["standing"] = standing
    return world


def test_time_left_follows_from_what_was_reported_at_the_moment_it_was():
    known, view = lessons(), running().look()
    known.take(view, replace(told_nothing(), units_done=400.0, units_total=1000.0, as_of_s=NOW_S + 5_000))
    value = world_value(known, view)
    assert value.units_left == 600
    assert value.as_of_s == NOW_S + 5_000
    assert value.units_left_at(NOW_S + 5_000) == 600


def world_value(known: Lessons, view: JobView) -> Job:
    found = value_of(view, known.facts_of)
    assert found is not None
    return found


def test_what_the_status_remembers_counts_until_somebody_tells_more():
    growth = Growth(Category.WATCHING, 0.05, None, NOW_S)
    view = running(growth=growth, reported=Reported(NOW_S, 70.0, 100.0, 2, 0.5)).look()
    value = world_value(lessons(), view)
    assert (value.growth, value.units_left) == (growth, 30.0)


def test_a_last_word_teaches_where_no_monitor_does():
    known = lessons()
    spec = replace(spec_of(), category="resnet")
    before = Standing(phase=Phase.RUNNING, seats=running().look().standing.seats)
    after = replace(before, progress=Progress(step=50, units_done=50.0, step_s=0.2, workers=2))
    known.written(spec, before, after)
    assert known.knowledge.curve_for(spec).unit_s(2) == pytest.approx(0.2, rel=0.2)
    known.written(spec, after, replace(after, phase=Phase.SUCCEEDED, seats=(), history=()))
    assert known.knowledge.models["resnet", "a100"].finished == 1
    assert known.knowledge.units_for(spec) == 50


def spec_of() -> JobSpec:
    spec = World(GANG).look().spec
    assert spec is not None
    return spec


def test_windows_that_come_again_are_not_learned_twice():
    known = lessons()
    world = running(reported=Reported(NOW_S + 4, 40.0, None, 1, 0.1))
    world.workload = replace(GANG, category="resnet")
    told = hearing(told_nothing(), *steps(0, 2, 4, 6))
    known.take(world.look(), told)
    assert sum(seen.epochs for seen in known.knowledge.models["resnet", "a100"].seen) == 1


# -- what is worth a write


def test_only_another_category_and_coarse_steps_are_written():
    known, world = lessons(), running()
    told = hearing(told_nothing(), *[report(at_s, value=10 - at_s, units=at_s + 1) for at_s in range(6)])
    told = replace(told, units_total=1000.0)
    known.take(world.look(), told)
    first = known.noted(world.look())
    assert first.growth is not None
    assert first.reported is not None
    replace_standing(world, first)
    known.take(world.look(), hearing(told, *[report(at_s, value=10 - at_s, units=at_s + 1) for at_s in range(6, 60)]))
    assert known.noted(world.look()) is first, "the same category, and not a tenth of the work"
    known.take(world.look(), replace(known.told["job-uid"], units_done=150.0))
    second = known.noted(world.look())
    assert second is not first
    assert second.reported is not None
    assert second.reported.units_done == 150
    again = Judged.from_record(Judge(check_interval_s=1.0), second.judged)
    assert again.growth.category is Category.PROGRESSING


# -- speeds by category


def test_knowledge_is_read_as_it_was_written():
    knowledge = Knowledge().learn(replace(spec_of(), category="x"), "a100", [ProgressPoint(0, 1, 2, 0.25)])
    knowledge = knowledge.completed(replace(spec_of(), category="x"), "a100", 90.0)
    assert knowledge_of(knowledge_data(knowledge)) == knowledge
    assert knowledge_of(None) == knowledge_of({}) == Knowledge()


def _model_text(seen: list[float]) -> str:
    model = {"category": "x", "accelerator": "", "seen": [seen], "finished": 0, "finishedUnits": 0}
    return json.dumps({"models": [model]})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("nonsense", id="no document"),
        pytest.param("[]", id="no keys"),
        pytest.param('{"models": [{"category": "x"}]}', id="half a model"),
        pytest.param(_model_text([1, 0, 2]), id="a mean of nothing"),
        pytest.param(_model_text([1, 2, -2]), id="time that runs backwards"),
    ],
)
def test_what_somebody_else_wrote_there_is_no_knowledge(text):
    with pytest.raises(InvalidRequest, match="learned anew"):
        knowledge_of({"knowledge.json": text})


def test_writes_grow_with_the_logarithm_of_what_is_seen():
    model, kept, writes = ThroughputModel(), None, 0
    for _ in range(10_000):
        model = model.observed(1, 0.1)
        if is_worth_keeping(model, kept):
            kept, writes = model, writes + 1
    assert writes < 50


# -- judges and loads


def test_a_job_may_say_how_it_is_judged_and_nonsense_changes_nothing():
    usual = {"threshold": "0.2"}
    assert usable_judge(None, usual) == Judge(threshold=0.2)
    own = replace(GANG, annotations=((JUDGE, "mode=raw, confirmations=3"),))
    assert usable_judge(own, usual) == Judge.of({"threshold": "0.2", "mode": "raw", "confirmations": "3"})
    assert usable_judge(replace(GANG, annotations=((JUDGE, "threshhold=1"),)), usual) == Judge(threshold=0.2)


def test_a_new_rule_for_all_keeps_what_is_known():
    known, view = lessons(), running().look()
    told = hearing(told_nothing(), *[report(at_s, value=1 + 2 * 0.25**at_s) for at_s in range(10)])
    known.take(view, told)
    known.judge_by({"threshold": "0.3"})
    again = known.told_of(view)
    assert again.judged.judge.threshold == 0.3
    assert again.judged.growth.category is Category.CONVERGED


def test_loads_of_nodes_whose_monitor_is_silent_are_forgotten():
    known = lessons()
    known.put_load(NodeId("n1"), Usage(cpu=1.5, memory_bytes=7), NOW_S)
    assert known.loads(NOW_S + 1)[NodeId("n1")][:2] == (1500, 7)
    assert known.loads(NOW_S + SILENT_S + 1) == {}
