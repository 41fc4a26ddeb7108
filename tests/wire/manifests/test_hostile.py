"""Hostile manifests: refused with a path and a reason. No crash, no hang, no growth beyond what their size allows."""

import contextlib
import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.model.errors import InvalidRequest
from sterna.wire.document_limits import BODY_BYTES_MAX, MIB
from sterna.wire.manifests import read_manifests, require_runnable
from sterna.wire.manifests.shapes import words
from tests.needs import seeds
from tests.wire.manifests.builders import elasticjob, mpijob, pytorchjob, tfjob
from tests.wire.test_snapshot_limits import HOSTILE

SEEDS = len(seeds(200))
HEAD = "apiVersion: sterna.dev/v1alpha1\nkind: ElasticJob\nmetadata: {name: a}\nspec:\n"
CONTAINERS = "  template: {spec: {containers: "

ours = [
    pytest.param("---\n" * 200_000, id="markers without end"),
    pytest.param("---\na: 1\n" * 100_000, id="documents without end"),
    pytest.param(HEAD + "".join(f"  k{n}: 1\n" for n in range(50_000)), id="unknown keys without end"),
    pytest.param(HEAD + "  env: [" + "{}, " * 200_000 + "]\n", id="empty variables without end"),
    pytest.param(HEAD + "  env: [" + "{}, " * 19_000 + "]\n", id="as many of them as may be"),
    pytest.param(HEAD + "  command: [" + "1, " * 200_000 + "]\n", id="words that are none, without end"),
    pytest.param(HEAD + "  command: [" + "1, " * 19_000 + "]\n", id="as many of those as may be"),
    pytest.param(HEAD + f"  {'x' * 500_000}: 1\n", id="a very long key"),
    pytest.param(HEAD + f"  contract: {'x' * 500_000}\n", id="a very long value"),
    pytest.param(HEAD + CONTAINERS + "[" + "{comand: [x]}, " * 6_000 + "]}}\n", id="a typing error many times"),
    pytest.param(
        HEAD + "  image: &i [" + "x, " * 200 + "]\n" + CONTAINERS + "[" + "{env: *i}, " * 90 + "]}}\n", id="aliases"
    ),
    pytest.param(
        HEAD + "  resources: {limits: {" + ", ".join(f"r{n}: -1" for n in range(19_000)) + "}}\n", id="amounts"
    ),
    pytest.param(HEAD + "  command: [a]\n  resources: {limits: {cpu: .nan}}\n", id="not a number"),
    pytest.param(HEAD + "  command: [a]\n  epochs: .inf\n", id="endless epochs"),
    pytest.param(HEAD + "  command: [a]\n  workers: {min: 99999999999999999999}\n", id="a number too large"),
    pytest.param(HEAD + "  command: [a]\n  workers: {min: 1e3}\n", id="a number that is not whole"),
    pytest.param(HEAD + "  spec: &s {spec: *s}\n", id="a spec within itself"),
    pytest.param(HEAD + "  roles: " + "{ps: {roles: " * 40 + "1" + "}}" * 40, id="roles within roles"),
    pytest.param(HEAD + CONTAINERS + "[[[[]]]]}}", id="lists for containers"),
]


@pytest.mark.parametrize("text", [*HOSTILE, *ours])
def test_r10_a_hostile_manifest_is_refused_with_a_reason(text):
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest) as caught:
            read_manifests(text)
        grown = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 5_000
    assert grown < 64 * MIB


def test_r10_a_manifest_may_be_as_long_as_a_body_and_no_longer():
    text = json.dumps(elasticjob())
    padded = text + "\n" * (BODY_BYTES_MAX - len(text))
    assert len(read_manifests(padded)) == 1
    with pytest.raises(InvalidRequest, match="at most 1048576 bytes"):
        read_manifests(padded + "\n")


def test_r10_bytes_that_are_no_text():
    with pytest.raises(InvalidRequest, match="UTF-8"):
        read_manifests(b"\xff\xfe")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["-1", "0", "1e3", "0.5", "1Ei", "NaN", "All", "restart", "$(A)", "metadata.name", "auto"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = sorted(
    {key for job in (tfjob(), pytorchjob(), mpijob(), elasticjob()) for key in job["spec"]}
    | words("template spec containers env command args resources limits requests replicas workers min max roles ps")
    | words("runPolicy elasticPolicy minReplicas lifecycle preStop exec tolerations affinity annotations name")
)


@st.composite
def mutated(draw):
    """A good manifest of which some parts have been replaced, renamed or taken away."""
    makers = [tfjob, pytorchjob, mpijob, lambda: mpijob(version="v2beta1"), elasticjob]
    job = draw(st.sampled_from(makers))()
    for _ in range(draw(st.integers(1, 4))):
        here = job
        while True:
            places = list(here) if isinstance(here, dict) else list(range(len(here)))
            if not places:
                break
            place = draw(st.sampled_from(places))
            if isinstance(here[place], dict | list) and draw(st.booleans()):
                here = here[place]
                continue
            here[place] = draw(values)
            break
        if isinstance(here, dict) and draw(st.booleans()):
            here[draw(st.sampled_from(KEYS) | st.text(max_size=8))] = draw(values)
    return job


@settings(max_examples=SEEDS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=mutated())
def test_r10_a_damaged_manifest_is_read_or_refused_and_never_more(job):
    try:
        documents = read_manifests(json.dumps(job))
    except InvalidRequest:
        return
    for document in documents:
        spec = document.workload.job_spec(submitted_s=0.0)
        assert 1 <= spec.workers_min <= spec.workers_initial <= spec.workers_max
        with contextlib.suppress(InvalidRequest):
            require_runnable(document.workload)


@settings(max_examples=SEEDS, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("-.:{}[]#&*!|>'\"% \n\tab1,?<~\\"), max_size=200))
def test_r10_noise_in_the_letters_of_yaml_is_refused(text):
    with pytest.raises(InvalidRequest):
        read_manifests(text)


@settings(max_examples=SEEDS, deadline=None)
@given(raw=st.binary(max_size=200))
def test_r10_noise_is_refused(raw):
    with pytest.raises(InvalidRequest):
        read_manifests(raw)
