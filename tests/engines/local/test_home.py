"""The engine's directory: for the user alone, owned by one engine at a time."""

import os
import stat

import pytest

from sterna.engines.local.process.home import Home, written_aside
from sterna.model.errors import Conflict, InvalidRequest


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path / "home")
    made.prepare()
    return made


def test_nobody_else_can_read_it(home):
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700


def test_the_lock_has_one_holder_and_names_him(home):
    home.acquire()
    with pytest.raises(Conflict, match=str(os.getpid())):
        Home(home.root).acquire()
    home.release()
    Home(home.root).acquire()


def test_a_home_that_cannot_be_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequest, match="file"):
        Home(tmp_path / "file").prepare()


def test_a_file_is_replaced_at_once(tmp_path):
    path = tmp_path / "script.sh"
    written_aside(path, "one")
    written_aside(path, "two", mode=0o755)
    assert path.read_text() == "two"
    assert os.access(path, os.X_OK)
    assert list(tmp_path.iterdir()) == [path]
