"""The list of policies: every name somebody may type leads to one of them."""

from dataclasses import fields

import pytest
from tests.worlds import cluster, job

from sterna.model.errors import InvalidRequest
from sterna.policies.registry import ENTRIES, policy

SPELLINGS = [
    ("FIFO", "fifo"),
    ("ElasticFIFO", "elastic-fifo"),
    ("SRJF", "srjf"),
    ("ElasticSRJF", "elastic-srjf"),
    ("Tiresias", "tiresias"),
    ("ElasticTiresias", "elastic-tiresias"),
    ("AFS-L", "afs-l"),
    ("fjf", "fifo"),
    ("shortest", "srtf"),
    ("shortest-gpu", "srsf"),
    ("dlas-gpu", "las"),
    ("FIFO_ELASTIC", "elastic-fifo"),
    ("SRSF_ELASTIC", "elastic-srsf"),
    ("MaxMin", "max-min"),
    ("Optimus", "optimus"),
    ("Opt2Jobs", "afs-l"),
    (" elastic_fifo ", "elastic-fifo"),
]


@pytest.mark.parametrize(("typed", "meant"), SPELLINGS)
def test_other_peoples_spellings_are_understood(typed, meant):
    assert policy(typed).name == meant
    assert policy(typed.upper()).name == meant


def test_no_spelling_means_two_policies():
    names = [spelling.lower().replace("-", "").replace("_", "") for entry in ENTRIES for spelling in entry.spellings]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        pytest.param("elastic-fifa", "did you mean elastic-fifo", id="a slip of the finger"),
        pytest.param("quantum", "one of: fifo, elastic-fifo", id="nothing like it"),
        pytest.param("", "one of: fifo", id="nothing at all"),
    ],
)
def test_an_unknown_policy_is_told_what_there_is(typed, says):
    with pytest.raises(InvalidRequest, match=says):
        policy(typed)


def test_a_preset_sets_options_and_what_is_typed_wins():
    assert policy("FIFO_ELASTIC").options.variant == "afs"
    assert policy("FIFO_ELASTIC", {"variant": "voda"}).options.variant == "voda"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_is_documented_and_runs(entry):
    assert entry.summary
    assert all(field.metadata["doc"] for field in fields(entry.options))
    for spelling in entry.spellings:
        assert policy(spelling)(cluster(gpus=1, jobs=[job("a", left=10)])).workers_by_job() == {"a": 1}
