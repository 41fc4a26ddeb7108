"""kubectl's templates over plain data."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.interfaces.cli.json_path import read_path, read_template
from sterna.model.errors import InvalidRequest

JOBS: dict[str, Any] = {
    "items": [
        {"name": "a", "phase": "Running", "workers": {"current": 4}, "labels": {"team.example/x": "vision"}},
        {"name": "b", "phase": "Failed", "workers": {"current": 0}, "conditions": [{"type": "Failed"}, {"type": "X"}]},
    ]
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{.items[0].name}", "a", id="one value of one item"),
        pytest.param("{.items[*].name}", "a b", id="all of them stand beside each other"),
        pytest.param("{$.items[-1].name}", "b", id="from the end, with the root's sign"),
        pytest.param(".items[1].phase", "Failed", id="braces may be left out"),
        pytest.param('{range .items[*]}{.name}{"\\t"}{.phase}{"\\n"}{end}', "a\tRunning\nb\tFailed\n", id="a range"),
        pytest.param("jobs: {.items[*].workers.current}!", "jobs: 4 0!", id="text around it, numbers as they are"),
        pytest.param("{.items[0].labels['team.example/x']}", "vision", id="a key with dots stands in quotes"),
        pytest.param('{.items[?(@.phase=="Failed")].name}', "b", id="a filter by equality"),
        pytest.param("{.items[?(@.workers.current>2)].name}", "a", id="a filter by size"),
        pytest.param("{.items[?(@.conditions)].name}", "b", id="a filter by presence"),
        pytest.param("{.items[?(@.phase>2)].name}", "", id="a number beside a word has no order"),
        pytest.param("{..type}", "Failed X", id="wherever it stands"),
        pytest.param("{.items[0].workers}", '{"current": 4}', id="an object is printed as JSON"),
        pytest.param("{.items[7].name}{.nothing.here}", "", id="what is not there prints nothing"),
        pytest.param(
            "{range .items[*]}{range .conditions[*]}{.type},{end}{end}", "Failed,X,", id="ranges within each other"
        ),
        pytest.param("{range .items[*]}{@.name}{'-'}{end}", "a-b-", id="the item's sign, and text in single quotes"),
        pytest.param("{.items[*].workers.*}", "4 0", id="all values of an object"),
    ],
)
def test_templates_print_as_kubectl_prints_them(template, expected):
    assert read_template(template, field="-o").filled(JOBS) == expected


@pytest.mark.parametrize(
    ("template", "names"),
    [
        pytest.param("{.items[}", "a path such as", id="a bracket that is left open"),
        pytest.param("{.name", "each { with its }", id="a brace that is left open"),
        pytest.param("{range .items[*]}{.name}", "an {end}", id="a range without an end"),
        pytest.param("{.items[?(@.name==b)]}", "to compare with", id="a word without quotes in a filter"),
        pytest.param("{}", "a path such as", id="nothing between the braces"),
        pytest.param('{"\\q"}', "between double quotes", id="a sign that means nothing"),
        pytest.param("{range .a}" * 30 + "{end}" * 30, "within each other", id="ranges without end"),
    ],
)
def test_a_mistake_names_the_template_and_what_would_do(template, names):
    with pytest.raises(InvalidRequest) as caught:
        read_template(template, field="-o")
    assert names in str(caught.value)


@given(st.text(alphabet="{}[]().*?@$'\"\\=<>! abc019-", max_size=30))
def test_any_text_is_a_template_or_a_clear_error(text):
    try:
        template = read_template(text, field="-o")
    except InvalidRequest:
        return
    assert isinstance(template.filled(JOBS), str)


def test_paths_may_be_typed_with_or_without_braces_and_dot():
    for text in (".workers.current", "{.workers.current}", "workers.current"):
        assert read_path(text, field="--sort-by").found(JOBS["items"][0]) == [4]
