"""With whom a job shares what is learned of its speed."""

import pytest

from sterna.model.learning import Knowledge, learns_within
from tests.worlds import job


def spec(job_id: str, category: str = "resnet"):
    return job(job_id, spec={"category": category}).spec


@pytest.mark.parametrize(
    ("job_id", "category", "kept_as"),
    [
        pytest.param("team-a/one", "resnet", "team-a/resnet", id="its namespace's"),
        pytest.param("team-a/one", "team-b/resnet", "team-a/team-b/resnet", id="whatever it is called"),
        pytest.param("default/one", "resnet", "resnet", id="as it was kept before, where there are no tenants"),
        pytest.param("default/one", "team-b/resnet", "default/team-b/resnet", id="but not another namespace's"),
        pytest.param("one", "resnet", "resnet", id="no namespace"),
        pytest.param("team-a/one", "", "", id="it shares with nobody"),
    ],
)
def test_a_category_is_kept_for_each_namespace(job_id, category, kept_as):
    assert learns_within(spec(job_id, category)).category == kept_as


def test_what_one_namespace_learned_says_nothing_in_another():
    known = Knowledge().completed(learns_within(spec("team-a/one")), "a100", 5.0)
    assert known.units_for(learns_within(spec("team-a/two"))) == 5.0
    assert known.units_for(learns_within(spec("team-b/two"))) is None
