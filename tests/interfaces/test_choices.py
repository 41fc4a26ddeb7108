"""What is typed about policies, taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.interfaces.cli.choices import PolicyChoice, policy_choices, settings, split_list
from sterna.model.errors import InvalidRequest
from sterna.policies.registry import ENTRIES
from sterna.wire.traces.shipped import shipped_traces, trace_path


def labels(*lists: str, common: dict[str, str] | None = None) -> list[str]:
    return [choice.label for choice in policy_choices(lists, common or {})]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        pytest.param(["fifo"], ["fifo"], id="one name"),
        pytest.param(["fifo,fifo:strict=true"], ["fifo", "fifo:strict=true"], id="one policy twice, set differently"),
        pytest.param(["fifo:strict=true:size=max"], ["fifo:size=max:strict=true"], id="options are put in order"),
        pytest.param([" fifo , ", "fifo"], ["fifo"], id="spaces and repeats do not matter"),
        pytest.param(["FIFO"], ["fifo"], id="another spelling is the same policy"),
    ],
)
def test_policies_with_options(typed, expected):
    assert labels(*typed) == expected


def test_without_names_every_policy_is_meant():
    everyone = [entry.name for entry in ENTRIES]
    assert labels("all") == labels() == everyone
    assert labels("all,fifo:size=max") == [*everyone, "fifo:size=max"]


def test_a_common_setting_goes_to_policies_that_have_it():
    assert labels("fifo", common={"size": "max"}) == ["fifo:size=max"]


def test_a_policys_own_setting_goes_before_the_common_one():
    assert labels("fifo:size=min", common={"size": "max"}) == ["fifo:size=min"]


@pytest.mark.parametrize(
    ("typed", "common", "names"),
    [
        pytest.param(["nope"], {}, "fifo", id="an unknown policy lists those there are"),
        pytest.param(["fifo:nope=1"], {}, "strict", id="an unknown option lists those there are"),
        pytest.param(["fifo:strict=maybe"], {}, "true or false", id="a bad value says what would do"),
        pytest.param(["fifo:strict"], {}, "key=value", id="an option without a value"),
        pytest.param(["fifo"], {"nope": "1"}, "at least one of the policies", id="a setting that nobody has"),
    ],
)
def test_mistakes_are_told_before_anything_runs(typed, common, names):
    with pytest.raises(InvalidRequest, match=names):
        policy_choices(typed, common)


def test_options_used_include_defaults():
    used = dict(PolicyChoice("fifo", (("strict", "true"),)).options_used())
    assert used["strict"] == "true"
    assert used["size"] == "min"


@given(value=st.text(min_size=0, max_size=20))
def test_a_setting_keeps_everything_after_the_first_equals_sign(value):
    assert settings([f"key={value}"]) == {"key": value.strip()}


def test_lists_may_be_repeated_or_joined_by_commas():
    assert split_list(["a,b", "c", "a"]) == ["a", "b", "c"]


def test_shipped_traces_are_known_by_name_and_files_go_first(tmp_path, monkeypatch):
    name = next(iter(shipped_traces()))
    assert trace_path(name).endswith(f"{name}.csv")
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("submitted_s,workers,duration_s\n")
    assert trace_path(name) == name
