"""What the end of a pod means for its job: success rules, exit codes, back-off, deadlines, last words."""

import pytest

from sterna.engines.kubernetes.reconcile.effects import CreatePod
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.workload import Contract, RestartPolicy, RunPolicy, Success
from sterna.protocol import CommittedCheckpoint, Status
from sterna.protocol import WorkerPhase as Said
from tests.engines.kubernetes.reconcile.world import PS, World, at, workers, workload

CHIEF = at(0, "n1", Role.CHIEF)


def tf(*fixed, **more):
    return workload(Contract.PARAMETER_SERVER, *(fixed or ((Role.PS, 1),)), **more)


def gang(**more):
    more.setdefault("kind", "ElasticJob")
    return workload(Contract.RESTART, **more)


def word(phase=Said.FINISHED, **values):
    return Status(pid=1, phase=phase, **values).to_json()


def saved(step):
    return CommittedCheckpoint(generation=1, step=step, bytes=1, digest="", stall_s=0.1, at_mono_s=1.0)


@pytest.mark.parametrize(
    ("of", "held", "ends", "succeeds"),
    [
        pytest.param(tf(), (PS, *workers(3)), ["worker-0"], True, id="worker 0 decides"),
        pytest.param(tf(), (PS, *workers(3)), ["worker-1"], False, id="another worker does not"),
        pytest.param(tf(), (PS, at(1), at(2)), ["worker-1", "worker-2"], True, id="or all that there are"),
        pytest.param(
            tf((Role.PS, 1), (Role.CHIEF, 1)), (CHIEF, PS, *workers(2)), ["chief-0"], True, id="a chief decides"
        ),
        pytest.param(
            tf((Role.PS, 1), (Role.CHIEF, 1)),
            (CHIEF, PS, *workers(2)),
            ["worker-0", "worker-1"],
            False,
            id="... even when all workers are through",
        ),
        pytest.param(
            workload(Contract.RESTART, (Role.MASTER, 1), kind="PyTorchJob"),
            (at(0, "n1", Role.MASTER), *workers(2)),
            ["master-0"],
            True,
            id="PyTorchJob: the master",
        ),
        pytest.param(
            workload(Contract.DISCOVERY, (Role.LAUNCHER, 1), kind="MPIJob"),
            (at(0, "n1", Role.LAUNCHER), *workers(2)),
            ["launcher-0"],
            True,
            id="MPIJob: the launcher",
        ),
        pytest.param(gang(success=Success.ALL_WORKERS), workers(2), ["worker-0"], False, id="all: one is not enough"),
        pytest.param(
            gang(success=Success.ALL_WORKERS), workers(2), ["worker-0", "worker-1"], True, id="all: all of them are"
        ),
        pytest.param(gang(), workers(2), ["worker-0"], True, id="a job without parameter servers runs"),
    ],
)
def test_dragon_8_dragon_9_whose_success_is_the_jobs(of, held, ends, succeeds):
    world = World(of).started(*held)
    for name in ends:
        world.exit(f"job1-{name}", 0)
    world.rest()
    assert (world.phase() is Phase.SUCCEEDED) == succeeds
    if succeeds:
        assert world.conditions[-1] == "Succeeded=True"
        assert world.status["completionTime"]
        assert not [name for name, pod in world.pods.items() if pod["status"]["phase"] == "Running"]


def test_dragon_8_an_evaluator_is_in_the_job_and_not_in_the_cluster_spec():
    of = tf((Role.CHIEF, 1), (Role.EVALUATOR, 1))
    world = World(of).started(CHIEF, at(0, "n1", Role.EVALUATOR), *workers(2))
    config = next(
        e["value"] for e in world.pods["job1-chief-0"]["spec"]["containers"][0]["env"] if e["name"] == "TF_CONFIG"
    )
    assert "evaluator" not in config
    assert '"chief"' in config
    assert world.conditions[-1] == "Running=True"


def test_the_end_of_the_container_that_decides_is_enough():
    """A sidecar that never ends keeps the pod running."""
    world = World(tf()).started(PS, *workers(2))
    status = world.pods["job1-worker-0"]["status"]
    status["containerStatuses"] = [
        {"name": "sidecar", "ready": True, "state": {"running": {}}},
        {"name": "tensorflow", "state": {"terminated": {"exitCode": 0}}},
    ]
    world.rest()
    assert world.phase() is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("code", "retried"),
    [(code, code in (130, 137, 138, 143)) for code in (1, 2, 126, 127, 128, 130, 137, 138, 139, 143, 200)],
)
def test_dragon_10_only_four_codes_are_tried_again(code, retried):
    world = World(tf(restarts=RestartPolicy.EXIT_CODE)).started(PS, *workers(3))
    before = world.pods["job1-worker-1"]["metadata"]
    world.exit("job1-worker-1", code)
    world.turn()
    assert world.reasons.count("ExitedWithCode") == 1
    if retried:
        assert world.conditions == ["Created=True", "Restarting=True"]  # which evicts Running
        assert (world.standing.failures, world.standing.restarts) == (1, 1)
        world.turn()
        assert "job1-worker-1" not in world.pods  # it waits a moment first
        world.now_s = world.wake_s
        world.rest()
        after = world.pods["job1-worker-1"]["metadata"]
        assert after["uid"] != before["uid"]
        assert after["labels"] == before["labels"]  # the same slot
        assert world.pods["job1-worker-1"]["spec"]["nodeName"] == "n1"
        assert world.conditions == ["Created=True", "Running=True"]
        assert world.reasons.count("ExitedWithCode") == 1
    else:
        assert world.conditions[-2:] == ["Running=False", "Failed=True"]
        assert world.condition("Failed")["reason"] == "TFJobFailed"
        assert f"exit code {code}" in world.condition("Failed")["message"]
        assert world.events[-1].warning


def test_dragon_10_code_0_of_another_worker_is_neither_tried_again_nor_a_failure():
    world = World(tf(restarts=RestartPolicy.EXIT_CODE)).started(PS, *workers(3))
    world.exit("job1-worker-1", 0)
    world.rest()
    assert world.phase() is Phase.RUNNING
    assert world.standing.done == ((Role.WORKER, 1),)
    created = sum(isinstance(effect, CreatePod) for effect in world.done)
    world.delete_pod("job1-worker-1")  # by a user, or the cluster's own clean-up of pods
    world.rest()
    assert sum(isinstance(effect, CreatePod) for effect in world.done) == created
    assert world.status["replicaStatuses"]["Worker"]["succeeded"] == 1


def test_dragon_10_a_failed_pod_of_which_nobody_can_say_how_it_ended_is_final():
    world = World(tf(restarts=RestartPolicy.EXIT_CODE)).started(PS, *workers(2))
    world.pods["job1-worker-1"]["status"] = {"phase": "Failed"}
    world.rest()
    assert world.phase() is Phase.FAILED


def test_dragon_10_a_failure_is_counted_once_although_the_operator_dies_before_it_deletes_the_pod():
    world = World(tf(restarts=RestartPolicy.EXIT_CODE)).started(PS, *workers(2))
    world.exit("job1-worker-1", 137)
    pod = dict(world.pods["job1-worker-1"])
    world.turn()
    world.pods["job1-worker-1"] = pod  # the deletion never happened
    world.vanished = []
    world.turn()
    assert world.standing.failures == 1


@pytest.mark.parametrize(
    ("limit", "restarts", "fails"),
    [(limit, restarts, restarts >= max(1, limit)) for limit in (0, 1, 2, 3) for restarts in range(4)],
)
def test_dragon_11_in_place_restarts_fail_the_job_exactly_at_the_limit(limit, restarts, fails):
    of = tf(restarts=RestartPolicy.ON_FAILURE, run_policy=RunPolicy(backoff_limit=limit))
    world = World(of).started(PS, *workers(2))
    if restarts:
        world.restart_in_place("job1-worker-1", restarts=restarts)
    world.rest()
    assert (world.phase() is Phase.FAILED) == fails
    if fails:
        assert world.standing.reason == "BackoffLimitExceeded"
        assert str(restarts) in world.standing.message


def test_dragon_11_restarts_of_several_pods_add_up():
    of = tf(restarts=RestartPolicy.ON_FAILURE, run_policy=RunPolicy(backoff_limit=3))
    world = World(of).started(PS, *workers(2))
    world.restart_in_place("job1-worker-0", restarts=1)
    world.restart_in_place("job1-worker-1", restarts=1)
    world.rest()
    assert world.phase() is Phase.RUNNING
    assert world.standing.restarts == 2
    world.restart_in_place("job1-worker-1", restarts=2)
    world.rest()
    assert world.phase() is Phase.FAILED


@pytest.mark.parametrize(("limit", "tries"), [(0, 1), (2, 3)])
def test_dragon_11_retries_of_exit_code_are_limited_too(limit, tries):
    of = tf(restarts=RestartPolicy.EXIT_CODE, run_policy=RunPolicy(backoff_limit=limit))
    world = World(of).started(PS, *workers(2))
    for _ in range(tries):
        assert world.phase() is Phase.RUNNING
        world.exit("job1-worker-1", 137)
        world.rest()
        world.now_s += 10
        world.rest()
    assert world.phase() is Phase.FAILED
    assert world.standing.reason == "BackoffLimitExceeded"


def test_dragon_12_the_deadline_counts_from_placement_not_from_submission():
    world = World(tf(run_policy=RunPolicy(active_deadline_s=60)))
    world.rest()
    world.now_s += 100
    world.rest()
    assert world.phase() is Phase.WAITING
    world.started(PS, *workers(2))
    assert world.wake_s == world.now_s + 60
    world.now_s += 59.9
    world.rest()
    assert world.phase() is Phase.RUNNING
    world.now_s += 0.1
    world.rest()
    assert (world.phase(), world.standing.reason) == (Phase.FAILED, "DeadlineExceeded")


def test_dragon_12_editing_the_deadline_moves_the_next_look():
    world = World(tf(run_policy=RunPolicy(active_deadline_s=60))).started(PS, *workers(2))
    start_s = world.now_s
    world.edit_policy(active_deadline_s=600.0)
    world.rest()
    assert world.wake_s == start_s + 600
    world.now_s += 120
    world.rest()
    assert world.phase() is Phase.RUNNING
    world.edit_policy(active_deadline_s=90.0)
    world.rest()
    assert world.phase() is Phase.FAILED


# -- those that were told to stop -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "succeeds"),
    [
        pytest.param("", False, id="no word: it stopped because it was told to"),
        pytest.param(word(Said.COMMITTED, step=7), False, id="its state is saved, it was not through"),
        pytest.param(word(Said.TRAINING), False, id="it did not even get to save"),
        pytest.param(word(Said.FINISHED), True, id="it had finished before it heard"),
        pytest.param("not a word at all {", False, id="something else in the termination message"),
    ],
)
def test_code_0_of_a_worker_that_was_told_to_stop_is_a_success_only_if_it_says_so(message, succeeds):
    world = World(gang(workers=(2, 2))).started(*workers(2))
    world.shrink(then=workers(2, "n2"))
    for name in ("job1-worker-0", "job1-worker-1"):
        world.exit(name, 0, message=message)
    world.turn()
    assert (world.phase() is Phase.SUCCEEDED) == succeeds


def test_those_who_finished_before_they_heard_do_not_finish_for_the_others():
    world = World(gang(workers=(2, 2), success=Success.ALL_WORKERS)).started(*workers(2))
    world.shrink()
    world.exit("job1-worker-1", 0, message=word(Said.COMMITTED))
    world.vanish("job1-worker-1")
    world.turn()
    world.exit("job1-worker-0", 0, message=word(Said.FINISHED))
    world.rest()
    assert world.phase() is Phase.WAITING


def test_ranks_that_stopped_together_with_a_deleted_one_are_no_success():
    world = World(gang(workers=(2, 2), restarts=RestartPolicy.NEVER)).started(*workers(2))
    world.delete_pod("job1-worker-1")
    world.exit("job1-worker-0", 0, message=word(Said.COMMITTED, step=7))
    world.rest()
    assert world.phase() is Phase.RUNNING
    assert world.standing.incarnation == 2
    assert world.standing.failures == 0
    assert world.conditions[-1] == "Running=True"


def test_a_worker_that_stops_by_itself_again_and_again_is_a_failure():
    of = gang(workers=(1, 1), run_policy=RunPolicy(backoff_limit=2))
    world = World(of).started(at(0))
    for _ in range(3):
        world.exit("job1-worker-0", 0, message=word(Said.COMMITTED, step=7))
        world.rest()
        world.now_s += 10
        world.rest()
    assert (world.phase(), world.standing.reason) == (Phase.FAILED, "BackoffLimitExceeded")


def test_the_last_word_is_the_jobs_progress():
    world = World(gang()).started(*workers(2))
    world.shrink(then=workers(2, "n2"))
    said = word(Said.COMMITTED, step=40, epoch=2, units_done=40.0, units_total=100.0, save_s=0.5, checkpoint=saved(40))
    world.exit("job1-worker-0", 0, message=said)
    world.exit("job1-worker-1", 0, message=word(Said.COMMITTED, step=39))
    world.turn()
    progress = world.standing.progress
    assert (progress.step, progress.epoch, progress.units_done, progress.units_total) == (40, 2, 40.0, 100.0)
    assert progress.save_s == 0.5
    assert world.standing.change.committed_step == 40


def test_the_last_word_of_a_pod_that_vanished_between_two_looks_is_heard():
    world = World(gang()).started(*workers(2))
    world.shrink(then=workers(2, "n2"))
    world.exit("job1-worker-0", 0, message=word(Said.COMMITTED, step=40, checkpoint=saved(40)))
    world.vanish("job1-worker-0")
    world.turn()
    assert world.standing.progress.step == 40
    assert world.standing.change.committed_step == 40


def test_steps_that_were_made_twice_are_counted_as_lost():
    world = World(gang(restarts=RestartPolicy.ON_FAILURE)).started(*workers(1))
    world.restart_in_place("job1-worker-0", restarts=1, message=word(Said.TRAINING, step=50))
    world.rest()
    world.restart_in_place("job1-worker-0", restarts=2, message=word(Said.TRAINING, step=70, restored_step=45))
    world.rest()
    assert world.standing.steps_lost == 5
    assert world.standing.restarts == 2
    assert world.standing.progress.step == 70


# -- whole gangs ------------------------------------------------------------------------------------------------------


def test_a_gang_that_nobody_survives_starts_anew_as_a_whole():
    world = World(gang(restarts=RestartPolicy.EXIT_CODE)).started(*workers(3))
    before = {pod["metadata"]["uid"] for pod in world.pods.values()}
    world.exit("job1-worker-2", 137)
    world.rest()
    world.now_s += 5
    world.rest()
    assert world.standing.incarnation == 2
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in world.pods.values())
    assert {pod["metadata"]["annotations"]["sterna.dev/incarnation"] for pod in world.pods.values()} == {"2"}
    assert world.standing.failures == 1
    assert [past.kind for past in world.standing.history] == ["restart"]


def test_the_others_train_on_without_a_worker_of_a_parameter_server_but_not_without_the_server():
    world = World(tf(restarts=RestartPolicy.EXIT_CODE)).started(PS, *workers(2))
    kept = world.pods["job1-worker-0"]["metadata"]["uid"]
    world.exit("job1-worker-1", 137)
    world.rest()
    world.now_s += 5
    world.rest()
    assert world.pods["job1-worker-0"]["metadata"]["uid"] == kept
    world.exit("job1-ps-0", 137)
    world.rest()
    world.now_s += 5
    world.rest()
    assert world.pods["job1-worker-0"]["metadata"]["uid"] != kept
    assert world.standing.incarnation == 2


def test_voda_28_a_completion_is_told_once_whatever_is_heard_later():
    world = World(tf()).started(PS, *workers(2))
    world.exit("job1-worker-0", 0)
    world.rest()
    finished = world.status["completionTime"], world.writes
    world.now_s += 50
    world.exit("job1-worker-0", 1) if "job1-worker-0" in world.pods else None
    for _ in range(3):
        world.turn()
    assert (world.status["completionTime"], world.writes) == finished
    assert world.reasons.count("TFJobSucceeded") == 1
    assert world.happenings.count("job completed") == 1


def test_out_of_memory_is_called_by_its_name():
    world = World(tf()).started(PS, *workers(2))
    world.exit("job1-worker-1", 137, reason="OOMKilled")
    world.rest()
    assert world.standing.reason == "OutOfMemory"
    assert "out of memory" in world.condition("Failed")["message"]
