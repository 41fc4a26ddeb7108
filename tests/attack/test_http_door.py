"""The door under attack: the port of `sterna up --door-port`, which is the operator's listener as well."""

import pytest

from tests.attack.http_attacks import HttpAttacks
from tests.attack.http_victims import QUICK, engine


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    with engine(tmp_path_factory.mktemp("engine")) as (_, door):
        yield door


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    with engine(tmp_path_factory.mktemp("quick"), limits=QUICK) as (_, door):
        yield door


class TestDoor(HttpAttacks):
    """Everything that is tried on a server."""
