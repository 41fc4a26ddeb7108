"""The images: pinned, without what builds them, run by nobody in particular. No engine is needed to check that."""

import fnmatch
import re
import shlex
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.dockerfile import lineage, stages
from tests.deploy.rendering import ROOT, objects, render, the_only

DOCKER = ROOT / "deploy" / "docker"
STAGES = stages(DOCKER / "Dockerfile")
TARGETS = ("operator", "monitor", "training-example")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+) \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def test_there_is_an_image_for_operator_monitor_and_training_and_the_operators_is_the_default():
    assert set(TARGETS) <= STAGES.keys()
    assert list(STAGES)[-1] == "operator"


def test_s7_every_base_is_an_exact_version():
    images = {stage.base for stage in STAGES.values()} - STAGES.keys()
    assert [image for image in images if not re.fullmatch(r"[\w/.-]+:\d+\.\d+\.\d+-[\w.-]+", image)] == []


@pytest.mark.parametrize("target", TARGETS)
def test_s6_an_image_runs_as_a_user_that_is_a_number_and_not_root(target):
    """A number, because the kubelet cannot tell of a name whether it is root's."""
    users = [user for stage in lineage(STAGES, target) for user in stage.all("USER")]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])
    pod = the_only(objects(render()), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert users[-1] == f"{pod['runAsUser']}:{pod['runAsGroup']}"


@pytest.mark.parametrize("target", TARGETS)
def test_s7_nothing_is_installed_in_what_is_shipped_and_pip_is_gone(target):
    commands = [command for stage in lineage(STAGES, target) for command in stage.all("RUN")]
    assert [command for command in commands if re.search(r"\binstall\b|apt|curl|wget", command)] == []
    (removed,) = [shlex.split(command) for command in commands if "uninstall" in command]
    assert {"pip", "setuptools", "wheel"} <= set(removed)


def test_what_is_copied_is_there_and_may_be_seen_by_a_build():
    allowed = [line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    for stage in STAGES.values():
        for copied in stage.all("COPY"):
            *options_and_sources, _ = copied.split()
            options = [word for word in options_and_sources if word.startswith("--")]
            sources = [word for word in options_and_sources if not word.startswith("--")]
            if options:
                assert [option.removeprefix("--from=") in STAGES for option in options] == [True]
                continue
            assert [source for source in sources if not (ROOT / source).exists()] == []
            assert [source for source in sources if not any(fnmatch.fnmatch(source, one) for one in allowed)] == []
    assert [path for path in allowed if not (ROOT / path).exists()] == []


def test_the_programs_that_images_start_are_those_the_package_and_the_chart_name():
    container = the_only(objects(render()), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert STAGES["operator"].all("ENTRYPOINT") == ['["sterna"]'] == STAGES["monitor"].all("ENTRYPOINT")
    assert container["command"] == ["sterna"]
    assert container["args"][0] == "operator"
    assert STAGES["operator"].all("CMD") == ['["operator"]']
    assert "sterna" in PROJECT["project"]["scripts"]
    (program,) = [word for word in shlex.split(STAGES["training-example"].all("CMD")[0].strip("[]")) if ".py" in word]
    assert (ROOT / program).exists()


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        pytest.param(
            "requirements.txt",
            [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["kubernetes"]],
            id="what runs",
        ),
        pytest.param("requirements-build.txt", PROJECT["build-system"]["requires"], id="what builds"),
    ],
)
def test_s7_packages_are_pinned_by_version_and_hash_and_satisfy_the_project(file, wanted):
    text = (DOCKER / file).read_text()
    pinned = {canonicalize_name(name): version for name, version, _ in PINNED.findall(text)}
    left = PINNED.sub("", text)
    assert [line for line in left.splitlines() if line and not line.startswith("#")] == []
    for requirement in map(Requirement, wanted):
        version = pinned[canonicalize_name(requirement.name)]  # lock.py brings it up to date
        assert requirement.specifier.contains(version), f"{requirement} and {version}: run deploy/docker/lock.py"


def test_s7_the_packages_are_installed_from_these_lists_and_only_with_their_hashes():
    commands = " ".join(STAGES["build"].all("RUN"))
    installs = [part for part in commands.split("&&") if " install " in part]
    from_lists = [part for part in installs if " -r " in part]
    assert len(from_lists) == 2
    assert [part for part in from_lists if "--require-hashes" not in part] == []
    assert [part for part in installs if part not in from_lists and "--no-deps" not in part] == []


def test_the_example_trains_with_the_framework_that_is_tested():
    (torch,) = [one for one in PROJECT["project"]["optional-dependencies"]["torch"] if one.startswith("torch==")]
    assert STAGES["training-build"].all("ARG") == [f"TORCH={torch.removeprefix('torch==')}"]
