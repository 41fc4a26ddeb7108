"""Every row of the specifications that this release answers for has a test that names it."""

import pytest

from tests.spec_rows import REQUIRED, main, rows_tested


@pytest.mark.parametrize("row", REQUIRED)
def test_the_row_has_a_test_of_its_own(row):
    assert rows_tested().get(row), f"no test is called test_{row}_..."


def test_the_list_can_be_printed(capsys):
    main()
    assert capsys.readouterr().out.startswith("dragon_1\n    ")
