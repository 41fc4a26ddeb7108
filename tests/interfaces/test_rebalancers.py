"""Rebalancers on the command line: the list, and what `decide` says of what they looked at."""

import json

import pytest
from typer.testing import CliRunner

from sterna.interfaces.cli.main import cli
from sterna.model.growth import Category, Growth
from sterna.wire.snapshot_file import dump_snapshot
from tests.worlds import cluster, job, node


@pytest.fixture
def crowded(tmp_path):
    growth = Growth(Category.CONVERGED, 0.01)
    jobs = [
        job(f"j{number}", needs=1, gpus_each=0, on=["a"], left=900.0, growth=growth if number else None)
        for number in range(3)
    ]
    path = tmp_path / "cluster.json"
    path.write_text(dump_snapshot(cluster(nodes=[node("a", cpus=4), node("b", cpus=4)], jobs=jobs)))
    return str(path)


def sterna(*words: str) -> str:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_decide_says_what_rebalancers_looked_at(crowded):
    words = sterna("decide", "-s", crowded, "-p", "fifo", "--rebalance", "specon,drain")
    assert "specon" in words
    assert "(stays)" in words
    answer = json.loads(sterna("decide", "-s", crowded, "-p", "fifo", "--rebalance", "specon", "-o", "json"))
    moved, stayed = answer["considered"]
    assert (moved["job"], moved["worker"]["node"], moved["to"], moved["why"]) == ("j1", "a", "b", "Converged")
    assert moved["benefitSeconds"] > moved["costSeconds"] > 0
    assert (stayed["job"], stayed["to"], stayed["why"]) == ("j2", None, "AnotherMoved")
    assert answer["wakeSeconds"] == 30.0


def test_settings_of_rebalancers_are_options_of_decide(crowded):
    words = ("decide", "-s", crowded, "-p", "fifo", "--rebalance", "specon", "-o", "json")
    assert json.loads(sterna(*words, "--rebalance-set", "specon.round-s=7"))["wakeSeconds"] == 7.0
    assert "considered" not in json.loads(sterna(*words[:-4], "-o", "json", "--rebalance", "none"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["--rebalance", "spekon"], "did you mean specon?", id="a name that is nearly one"),
        pytest.param(["--rebalance", "specon", "--rebalance-set", "x=1"], "specon.round-s", id="an unknown option"),
        pytest.param(["--rebalance-set", "x=1"], "a rebalancer beside it", id="an option of nobody"),
        pytest.param(["--rebalance", "specon", "--placement", "count"], "one that knows nodes", id="no nodes"),
    ],
)
def test_mistakes_are_told_in_one_line(crowded, words, says):
    result = CliRunner().invoke(cli, ["decide", "-s", crowded, "-p", "fifo", *words])
    assert result.exit_code == 2
    assert says in result.output


def test_rebalancers_are_listed_with_their_options():
    assert [line.split()[0] for line in sterna("rebalancers").splitlines()] == [
        "specon",
        "imbalance",
        "defragment",
        "drain",
    ]
    one = sterna("rebalancers", "imbalance")
    assert "imbalance.threshold=1.0" in one
    assert "budget.moves-per-hour=6" in one
    facts = json.loads(sterna("rebalancers", "-o", "json"))
    assert "cost.mode" in {option["name"] for option in facts[0]["options"]}
    assert CliRunner().invoke(cli, ["rebalancers", "x"]).exit_code == 2
