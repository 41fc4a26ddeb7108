"""Tokens: a job's opens its own door and no other, and secrets can be replaced while everything runs."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.protocol.tokens import (
    INSTALLATION,
    Gate,
    TokenFile,
    TokenOwner,
    bearer,
    digest_of,
    job_token,
    node_token,
    owner_of,
)

SECRET = "a secret of 26 characters."
OTHER = "another secret, as long as"


def test_a_jobs_token_says_whose_it_is_and_only_with_the_secret_it_was_made_from():
    token = job_token(SECRET, namespace="team", job="train", uid="u1")
    assert owner_of(token, SECRET) == TokenOwner("team", "train", "u1")
    assert owner_of(token, OTHER) is None
    assert not TokenOwner("team", "train", "u1").is_installation
    assert TokenOwner("team", "train", "u1").job_id == "team/train"


def test_the_secret_is_the_installations_own_token():
    assert owner_of(SECRET, SECRET) is INSTALLATION
    assert INSTALLATION.is_installation


def test_a_token_cannot_be_made_to_say_another_job():
    prefix, _, signature = job_token(SECRET, namespace="team", job="train", uid="u1").split(".")
    other = base64.urlsafe_b64encode(b"team/other/u1").rstrip(b"=").decode()
    assert owner_of(f"{prefix}.{other}.{signature}", SECRET) is None


def test_no_job_is_not_the_installation():
    assert owner_of(job_token(SECRET, namespace="", job="", uid=""), SECRET) is None


def test_a_nodes_token_says_which_node_and_is_neither_a_jobs_nor_the_installations():
    token = node_token(SECRET, node="gpu-1")
    assert owner_of(token, SECRET) == TokenOwner(node="gpu-1")
    assert owner_of(token, OTHER) is None
    assert not TokenOwner(node="gpu-1").is_installation
    assert owner_of(node_token(SECRET, node=""), SECRET) is None


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_s1_no_job_can_be_named_so_that_its_token_is_a_nodes(namespace, job, uid, node):
    """Whoever may name a job gets a signature over that name; it must be good for nothing else."""
    try:
        _, name, signature = job_token(SECRET, namespace=namespace, job=job, uid=uid).split(".")
        _, _, of_node = node_token(SECRET, node=node).split(".")
    except UnicodeEncodeError:
        return
    assert owner_of(f"sterna1-node.{name}.{signature}", SECRET) is None
    assert signature != of_node or "\0" in namespace


def test_s1_with_a_nodes_token_no_other_token_can_be_made():
    """What a monitor holds: used as a secret, it makes nothing that the scheduler would take."""
    held = node_token(SECRET, node="gpu-1")
    made = [held, job_token(held, namespace="team", job="train", uid="u1"), node_token(held, node="gpu-2")]
    gate = Gate(lambda: [SECRET])
    assert [gate.owner_of(bearer(token)) for token in made] == [TokenOwner(node="gpu-1"), None, None]


def test_a_gate_without_the_secret_knows_a_token_by_its_digest():
    token, owner = job_token(SECRET, namespace="team", job="train", uid="u1"), TokenOwner("team", "train", "u1")
    told: dict[str, TokenOwner] = {}
    gate = Gate(lambda: [node_token(SECRET, node="gpu-1")], told=lambda: told)
    assert gate.owner_of(bearer(token)) is None
    told[digest_of(token)] = owner
    assert gate.owner_of(bearer(token)) == owner
    assert gate.owner_of(bearer(digest_of(token))) is None, "the digest itself opens nothing"
    told.clear()
    assert gate.owner_of(bearer(token)) is None


@pytest.mark.parametrize("secret", ["", "short"])
def test_a_secret_that_can_be_guessed_opens_nothing(secret):
    assert owner_of(secret, secret) is None
    assert owner_of(job_token(secret, namespace="a", job="b", uid="c"), secret) is None


@given(st.text(max_size=60))
def test_no_text_opens_the_gate(text):
    gate = Gate(lambda: [SECRET])
    assert gate.owner_of(text) is None
    assert gate.owner_of(f"Bearer {text}") is None
    assert gate.owner_of(text.encode()) is None


@given(st.data())
def test_a_token_with_one_character_changed_is_none(data):
    token = job_token(SECRET, namespace="team", job="train", uid="u1")
    place = data.draw(st.integers(0, len(token) - 1))
    sign = data.draw(st.characters(min_codepoint=33, max_codepoint=126).filter(lambda sign: sign != token[place]))
    changed = owner_of(token[:place] + sign + token[place + 1 :], SECRET)
    assert changed in (None, TokenOwner("team", "train", "u1"))  # base64 has spare bits: the same said otherwise


def test_the_gate_remembers_and_forgets_with_the_secrets():
    secrets = [SECRET]
    gate = Gate(lambda: tuple(secrets))
    header = bearer(job_token(SECRET, namespace="team", job="train", uid="u1"))
    assert gate.owner_of(header) == gate.owner_of(header.encode()) == TokenOwner("team", "train", "u1")
    secrets[:] = [OTHER, SECRET]  # being replaced: both are taken
    assert gate.owner_of(header) is not None
    secrets[:] = [OTHER]
    assert gate.owner_of(header) is None
    assert gate.owner_of(bearer(OTHER)) is INSTALLATION


def test_a_file_is_read_again_when_it_changed_and_its_last_good_content_stays(tmp_path):
    now_s = [0.0]
    path = tmp_path / "token"
    file = TokenFile(path, every_s=5.0, clock=lambda: now_s[0])
    assert file.first() is None
    path.write_text("one\n")
    assert file.first() is None  # not looked at again yet
    now_s[0] = 5.0
    assert file.first() == "one"
    path.write_text("  two  \n\none\n")
    now_s[0] = 10.0
    assert file.lines() == ("two", "one")
    path.unlink()
    now_s[0] = 15.0
    assert file.lines() == ("two", "one")
    path.write_bytes(b"\xff\xfe")
    now_s[0] = 20.0
    assert file.first() == "two"
