"""The list of mutations fits the sources: each stands there once, changes something, and is still Python.

That the suite notices them is `make mutants`, which takes half an hour and is part of `make soak`.
"""

import ast

import pytest

from tests.mutants.mutating import CATALOGUE, ROOT, SOURCE, mutants, mutated

ALL = mutants(CATALOGUE.read_text(encoding="utf-8"))


def test_the_list_is_long_enough_and_every_storey_of_the_core_is_in_it():
    assert len(ALL) >= 60
    assert {"policies", "placement", "planner", "model", "lifecycle"} <= {mutant.path.split("/")[0] for mutant in ALL}


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name[:100])
def test_the_mutation_can_be_made(mutant):
    text = mutated(mutant)
    assert text != (SOURCE / mutant.path).read_text(encoding="utf-8")
    ast.parse(text)
    assert mutant.tests
    assert all((ROOT / test).exists() for test in mutant.tests)
