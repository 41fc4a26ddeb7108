"""Pods that admission does not let in: what a job keeps, what it says, and when it comes back."""

from typing import Any

import pytest

from sterna.engines.kubernetes.reconcile.effects import CREATIONS, AskAdmission, CreatePod, CreateService, Effect
from sterna.engines.kubernetes.reconcile.job_view import Hindrance
from sterna.engines.kubernetes.reconcile.reconcile import Reconciled
from sterna.engines.kubernetes.status.standing import Standing
from sterna.lifecycle.admission_denials import FIRST_S, PATIENCE_S, Answer
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.why import Because, Why
from sterna.model.workload import Contract, Workload
from tests.engines.kubernetes.reconcile.world import PS, World, at, workers, workload

TF = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4))
RIGID = workload(Contract.RESTART, kind="ElasticJob", workers=(3, 3))
ELASTIC = workload(Contract.RESTART, kind="ElasticJob", workers=(1, 4))
MEMBERS = workload(Contract.DISCOVERY, kind="PyTorchJob", workers=(1, 4))
NO = 'pods "job1-worker-1" is forbidden: exceeded quota'


class Guarded(World):
    """A world whose API server refuses the pods that are named in `refused`, and tells it as the operator does."""

    def __init__(self, of: Workload, *refused: str) -> None:
        super().__init__(of)
        self.refused = set(refused)
        self.refuses_services = False
        self.answer = Answer(True)  # to the question whether one more would be let in
        self.said_no = False
        self.was_asked = False

    def turn(self, standing: Standing | None = None) -> Reconciled:
        self.was_asked = False
        done = super().turn(standing)
        if self.was_asked:
            self.fields["answer"] = self.answer
            super().turn()
            del self.fields["answer"]
        return done

    def carry_out(self, effect: Effect) -> None:
        refused_pod = isinstance(effect, CreatePod) and effect.name in self.refused
        if isinstance(effect, AskAdmission):
            assert not effect.body["spec"].get("nodeName")
            assert effect.name not in self.pods
            self.was_asked = True
        elif refused_pod or (self.refuses_services and isinstance(effect, CreateService)):
            self.said_no = True
        else:
            super().carry_out(effect)

    def try_(self) -> None:
        """One look and, if something was refused, the look at that."""
        self.said_no = False
        self.fields.pop("hindrance", None)
        self.turn()
        if self.said_no:
            self.fields["hindrance"] = Hindrance(True, NO, self.now_s + 1)
            self.turn()
            if self.standing.denial is None or not self.standing.denial.tries:
                del self.fields["hindrance"]

    def give_back(self) -> None:
        self.try_()
        assert self.standing.denial.tries
        self.now_s += PATIENCE_S
        self.try_()


def placed(of: Workload, *refused: str, size: int = 3, held: tuple[Any, ...] = ()) -> Guarded:
    world = Guarded(of)
    world.rest()
    world.refused = set(refused)
    assert world.grow(*held, *workers(size))
    return world


def test_a_job_that_is_refused_says_so_at_once_and_is_not_called_running_by_the_pods_that_came_in():
    world = placed(RIGID, "job1-worker-1", "job1-worker-2")
    world.try_()
    world.kubelets()
    world.turn()
    scheduling = world.status["scheduling"]
    assert (scheduling["reason"], scheduling["message"]) == ("AdmissionDenied", NO)
    assert scheduling["decided"]["reason"] == "NextInOrder"
    assert world.conditions == ["Created=True"]
    assert world.status["replicaStatuses"]["Worker"]["active"] == 1
    assert world.wake_s == world.now_s + 1, "it is tried again"
    writes = world.writes
    world.turn()
    assert world.writes == writes


def test_nothing_is_made_before_it_is_time_to_try_again():
    world = placed(RIGID, "job1-worker-1")
    world.try_()
    world.refused.clear()
    assert not [effect for effect in world.turn().effects if isinstance(effect, CREATIONS)]
    world.now_s += 1
    assert [effect.name for effect in world.turn().effects if isinstance(effect, CreatePod)] == ["job1-worker-1"]
    world.rest()
    assert world.standing.denial is None, "all is ready, and the past is forgotten"
    assert "Running=True" in world.conditions


def test_a_gang_that_is_not_let_in_for_long_gives_everything_back_and_waits():
    world = placed(RIGID, "job1-worker-1", "job1-worker-2")
    world.give_back()
    standing = world.standing
    assert (standing.phase, standing.seats, standing.reason) == (Phase.WAITING, (), "AdmissionDenied")
    assert NO in standing.message
    assert (standing.denial.times, standing.denial.size) == (1, 0)
    assert "AdmissionDenied" in world.reasons
    assert "Preempted" not in world.reasons
    assert "workers gone" in world.happenings
    world.rest()
    assert not world.pods
    assert not world.services
    assert world.conditions == ["Created=True"]
    assert world.condition("Preempted")["status"] == "False"
    value = world.value
    assert (value.denied, value.wants_workers, value.size) == (NO, False, 0)
    world.explain(Because(Why.NO_ROOM))
    assert world.standing.reason == "AdmissionDenied", "it has no part in what a decision says of others"
    assert world.wake_s == standing.denial.until_s


def test_it_takes_part_again_once_its_time_is_over_and_waits_longer_when_it_is_refused_again():
    world = placed(RIGID, "job1-worker-1", "job1-worker-2")
    world.give_back()
    world.rest()
    first_s = world.standing.denial.until_s - world.now_s
    assert 0.75 * FIRST_S <= first_s <= FIRST_S
    world.now_s = world.standing.denial.until_s
    world.happenings.clear()
    world.rest()
    assert "job resumed" in world.happenings
    assert world.value.wants_workers
    assert world.grow(*workers(3))
    world.give_back()
    assert world.standing.denial.times == 2
    assert world.standing.denial.until_s - world.now_s == pytest.approx(2 * first_s)


def test_a_job_that_would_still_be_refused_takes_no_room_to_find_out():
    world = placed(RIGID, "job1-worker-1", "job1-worker-2")
    world.give_back()
    world.rest()
    first_s = world.standing.denial.until_s - world.now_s
    world.answer = Answer(False, "exceeded quota, still")
    world.now_s = world.standing.denial.until_s
    writes = world.writes
    world.rest()
    denial = world.standing.denial
    assert (denial.times, denial.in_force, world.value.wants_workers) == (2, True, False)
    assert denial.until_s - world.now_s == pytest.approx(2 * first_s)
    assert "exceeded quota, still" in world.standing.message
    assert world.writes == writes + 1
    assert not world.pods


def test_a_running_job_goes_on_undisturbed_while_no_more_are_let_in():
    world = placed(ELASTIC, "job1-worker-2")
    world.give_back()
    world.rest()
    assert world.grow(*workers(2))
    world.rest()
    before = dict(world.pods)
    world.answer = Answer(False, "still")
    world.now_s = world.standing.denial.until_s
    world.rest()
    assert world.value.spec.workers_max == 2
    assert (world.pods, world.phase()) == (before, Phase.RUNNING)
    world.answer = Answer(True)
    world.now_s = world.standing.denial.until_s
    world.rest()
    assert world.value.spec.workers_max == 4


def test_a_suspended_job_is_not_asked_about():
    world = placed(RIGID, "job1-worker-1")
    world.give_back()
    world.edit_policy(suspend=True)
    world.rest()
    world.now_s = world.standing.denial.until_s
    world.rest()
    assert world.standing.denial.in_force


def test_an_edit_by_its_owner_is_tried_at_once():
    world = placed(RIGID, "job1-worker-1", "job1-worker-2")
    world.give_back()
    world.rest()
    assert not world.value.wants_workers
    world.edit()
    world.rest()
    assert world.value.wants_workers


@pytest.mark.parametrize(
    ("of", "held", "refused", "left"),
    [
        pytest.param(TF, (PS,), ("job1-worker-2",), (PS, *workers(2)), id="workers beside a parameter server"),
        pytest.param(MEMBERS, (), ("job1-worker-2",), workers(2), id="members that come and go"),
    ],
)
def test_a_job_that_can_train_with_what_was_let_in_keeps_it_and_asks_for_no_more(of, held, refused, left):
    world = placed(of, *refused, held=held)
    world.try_()
    world.kubelets()
    world.turn()
    assert "Running=True" in world.conditions, "those that came in train"
    world.now_s += PATIENCE_S
    world.try_()
    standing = world.standing
    assert standing.assigned == left
    assert (standing.reason, standing.denial.size) == ("AdmissionDenied", 2)
    value = world.value
    assert (value.wants_workers, value.spec.workers_max, value.denied) == (True, 2, "")
    world.refused.clear()
    world.now_s = standing.denial.until_s
    world.rest()
    assert world.value.spec.workers_max == 4
    assert world.grow(*held, *workers(3))
    world.rest()
    assert world.standing.denial is None


def test_a_gang_that_must_start_as_a_whole_starts_anew_with_as_many_as_were_let_in():
    world = placed(ELASTIC, "job1-worker-2")
    world.give_back()
    standing = world.standing
    assert (standing.phase, standing.seats, standing.denial.size) == (Phase.WAITING, (), 2)
    value = world.value
    assert (value.wants_workers, value.spec.workers_max, value.spec.workers_initial) == (True, 2, 1)
    world.rest()
    world.refused.clear()
    assert world.grow(*workers(2))
    world.rest()
    assert "Running=True" in world.conditions
    assert world.standing.denial.in_force, "it grows later"


def test_a_running_gang_whose_larger_size_is_refused_goes_back_to_what_is_let_in():
    world = Guarded(ELASTIC)
    world.started(*workers(2))
    world.refused = {"job1-worker-2"}
    world.shrink(then=workers(3))
    world.rest()
    assert world.grow(*workers(3))
    world.give_back()
    standing = world.standing
    assert (standing.phase, standing.seats, standing.denial.size) == (Phase.RESIZING, (), 2)
    world.rest()
    assert world.grow(*workers(2))
    world.rest()
    assert (world.phase(), world.standing.change) == (Phase.RUNNING, None)


def test_a_gang_without_the_service_that_it_meets_at_was_not_let_in():
    world = Guarded(RIGID)
    world.rest()
    world.refuses_services = True
    assert world.grow(*workers(3))
    assert len(world.pods) == 3
    world.give_back()
    assert world.phase() is Phase.WAITING


def test_a_new_operator_does_not_give_up_before_it_has_been_refused_itself():
    world = placed(RIGID, "job1-worker-1")
    world.try_()
    world.now_s += 10 * PATIENCE_S
    del world.fields["hindrance"]  # as after a restart
    world.refused.clear()
    world.rest()
    assert "Running=True" in world.conditions
    assert world.standing.denial is None


def test_a_process_that_lacks_the_right_says_so_and_the_job_keeps_its_seats():
    world = placed(RIGID, "job1-worker-0", "job1-worker-1", "job1-worker-2")
    world.fields["hindrance"] = Hindrance(False, "cannot create resource", world.now_s + 1)
    for _ in range(3):
        world.turn()
        world.now_s += PATIENCE_S
    assert world.status["scheduling"]["reason"] == "OperatorProblem"
    assert (len(world.standing.seats), world.standing.denial) == (3, None)


def test_what_is_suspended_meanwhile_tries_nothing_any_more():
    world = placed(RIGID, "job1-worker-1")
    world.try_()
    assert world.standing.denial.tries
    world.edit_policy(suspend=True)
    world.turn()
    assert not world.standing.denial.tries


def test_a_place_that_is_done_was_let_in():
    world = Guarded(workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 2)))
    world.started(PS, at(0), at(1))
    world.exit("job1-worker-1", 0)
    world.rest()
    world.delete_pod("job1-worker-1")
    world.rest()
    assert world.phase() is Phase.RUNNING
    assert world.standing.denial is None
