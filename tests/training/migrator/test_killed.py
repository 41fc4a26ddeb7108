"""kill -9 in the middle of a save: what was said to be saved is there, whole, for whoever comes next."""

import json
import os
import subprocess
import sys

from tests.needs import needs, seeds
from tests.training.migrator.workshop import HERE, PATIENCE_S, process_environment

needs("torch")

SEED = int(os.environ.get("STERNA_SEED", "20260"))


def test_voda_42_killed_at_any_moment_of_a_save_the_last_one_that_was_told_is_found(tmp_path):
    rounds = len(seeds(25))
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_while_saving.py"), str(tmp_path), str(SEED), str(rounds)],
        env=process_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S + 5 * rounds,
        check=False,
    )
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(said) == rounds
    before = 0
    for number, one in enumerate(said):
        found, told = one["found"], max(one["saved"], before)
        assert found["resumed"] == (found["step"] > 0), f"seed {SEED}, round {number}: {one}"
        assert found["values"] == [float(found["step"])], f"seed {SEED}, round {number}: torn, {one}"
        assert told <= found["step"] <= told + 1, f"seed {SEED}, round {number}: {one}"
        before = found["step"]
    assert before > rounds // 2, "nothing was ever saved: the rounds are too short to say anything"
    assert not list(tmp_path.glob(".migration*")), "killed saves are cleared away"
