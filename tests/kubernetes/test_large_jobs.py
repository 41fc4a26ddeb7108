"""A job of forty workers: what became of it is told, however many pods it has."""

from collections import Counter

from tests.kubernetes.jobs import elasticjob
from tests.kubernetes.lab import Lab

WORKERS = 40


def test_a_job_of_forty_workers_tells_that_it_runs_and_that_it_failed(lab: Lab):
    lab.nodes.add(5, gpus=8)
    running = lab.start()
    names = [f"big-worker-{number}" for number in range(WORKERS)]
    lab.submit(elasticjob("big", workers=(WORKERS, WORKERS), policy="Never"))
    lab.until_true("ElasticJob", "big", "Running")
    lab.until_pods("big", *names)
    running.kill()
    for name in names:  # all of them before the operator looks again
        lab.nodes.exit(name, 1)
    running.restart()
    lab.until_true("ElasticJob", "big", "Failed")
    expected = {"ElasticJobCreated", "Placed", "ElasticJobRunning", "ExitedWithCode", "ElasticJobFailed"}
    lab.until(lambda: lab.reasons("big") >= expected, f"{expected} are told")
    told = {event["reason"]: event for event in lab.events("big")}
    assert told["SuccessfulCreatePod"]["message"] == "Created 40 pods: big-worker-0 ... big-worker-39"
    counts = Counter(event["reason"] for event in lab.events("big"))
    assert sum(counts.values()) < 25, counts
