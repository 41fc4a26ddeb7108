"""Annotations on a job: those that are known, those that are nearly, and the directory for checkpoints."""

import pytest

from tests.wire.manifests.builders import (
    Manifest,
    annotated,
    elasticjob,
    notes,
    problems,
    pytorchjob,
    replica,
    tfjob,
    workload,
)

KEY = 'metadata.annotations["sterna.dev/checkpoint-dir"]'


def with_volume(directory: str, mounted: str = "/data") -> Manifest:
    worker = replica("pytorch", volumeMounts=[{"name": "data", "mountPath": mounted}])
    return annotated(pytorchjob({"Worker": worker}), checkpoint_dir=directory)


@pytest.mark.parametrize("directory", ["/data", "/data/", "/data/checkpoints/mnist"])
def test_checkpoints_go_into_a_volume(directory):
    assert notes(with_volume(directory))[0] == ()


@pytest.mark.parametrize("directory", ["/elsewhere", "/database", "/"])
def test_a_directory_that_ends_with_its_pod_is_worth_a_warning(directory):
    (warning,) = notes(with_volume(directory))[0]
    assert warning.startswith(f"document 1: {KEY}: no volume of the workers is mounted at {directory}")


@pytest.mark.parametrize("directory", ["checkpoints", "", "/data/../etc", "/data\0"])
def test_a_directory_that_is_none_is_refused(directory):
    assert list(problems(with_volume(directory))) == [KEY]


@pytest.mark.parametrize("name", ["checkpoint_dirs", "chief_in_pss", "min_worker"])
def test_a_misspelt_annotation_is_refused(name):
    (found,) = problems(annotated(elasticjob(), **{name: "1"})).values()
    assert "did you mean" in found[1]


@pytest.mark.parametrize(("said", "moves"), [("true", True), ("false", False), (None, False)])
def test_an_owner_may_let_a_job_go_on_in_another_pool(said, moves):
    job = elasticjob() if said is None else annotated(elasticjob(), moves_between_pools=said)
    assert workload(job).job_spec(submitted_s=0.0).moves_between_pools is moves


def test_whether_it_may_go_on_in_another_pool_is_yes_or_no():
    (found,) = problems(annotated(elasticjob(), moves_between_pools="maybe")).values()
    assert found == ("maybe", '"true" or "false"')


def kubeshare(word: str, **template: str) -> Manifest:
    worker = replica("tensorflow")
    worker["template"]["metadata"] = {"annotations": {f"kubeshare/{key}": value for key, value in template.items()}}
    job = tfjob({"Worker": worker})
    job["metadata"]["annotations"] = {"DRAGON_KUBESHARE": word}
    return job


def test_dragon_30_the_word_for_shared_gpus_chooses_nothing_any_more():
    share = {"gpu_request": "0.5", "gpu_limit": "1.0", "gpu_mem": "1"}
    assert notes(kubeshare("true", **share))[0] == ()
    assert notes(kubeshare("false", **share))[0] == ()
    (warning,) = notes(kubeshare("true"))[0]
    assert "no template has kubeshare/gpu_request" in warning
    assert list(problems(kubeshare("yes", **share))) == ["metadata.annotations.DRAGON_KUBESHARE"]
