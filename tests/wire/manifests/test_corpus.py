"""Manifests in the shapes people have, and what they mean, kept side by side in `corpus/`.

STERNA_REWRITE_GOLDEN=1 writes the meanings anew; the difference then belongs into the commit that explains it.
"""

import os
from pathlib import Path

import pytest
import yaml

from sterna.wire.manifests import read_manifests, read_migration
from tests.wire.manifests.golden import as_text

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.yaml"))
PAGE = Path(__file__).parents[3] / "docs" / "manifests.md"
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").rglob("*.yaml"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_manifest_means_what_was_agreed_on(path):
    (document,) = read_manifests(path.read_text(encoding="utf-8"))
    notes = [f"warning: {text}" for text in document.warnings] + [f"aside: {text}" for text in document.aside]
    meaning = as_text(document.workload) + "".join(f"{note}\n" for note in notes)
    golden = path.with_suffix(".txt")
    if os.environ.get("STERNA_REWRITE_GOLDEN") == "1":
        golden.write_text(meaning, encoding="utf-8")
    assert meaning == golden.read_text(encoding="utf-8"), "if this is meant: STERNA_REWRITE_GOLDEN=1"


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_scheduling_core_takes_what_was_read(path):
    (document,) = read_manifests(path.read_bytes())
    spec = document.workload.job_spec(submitted_s=0.0)
    assert spec.workers_min <= spec.size_asked <= spec.workers_max


def test_all_of_them_in_one_text_are_cut_apart_without_a_change():
    texts = [path.read_text(encoding="utf-8") for path in CORPUS]
    documents = read_manifests("---\n".join(texts))
    assert [document.text for document in documents] == texts
    assert [document.index for document in documents] == list(range(1, len(texts) + 1))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_that_is_shipped_can_be_read(path):
    text = path.read_text(encoding="utf-8")
    moves = [body for body in yaml.safe_load_all(text) if body and body["kind"] == "Migration"]
    assert [read_migration(move) for move in moves] or read_manifests(text)


def test_every_example_of_the_page_can_be_read_and_is_of_a_kind_of_its_own():
    blocks = [block.split("```")[0] for block in PAGE.read_text(encoding="utf-8").split("```yaml\n")[1:]]
    moves, jobs = blocks[-1:], blocks[:-1]
    assert [read_migration(yaml.safe_load(move)).job for move in moves] == ["digits"]
    workloads = [document.workload for block in jobs for document in read_manifests(block)]
    assert {(workload.api_version, workload.kind) for workload in workloads} >= {
        ("kubeflow.org/v1", "TFJob"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("kubeflow.org/v1", "MPIJob"),
        ("kubeflow.org/v2beta1", "MPIJob"),
        ("sterna.dev/v1alpha1", "ElasticJob"),
    }
