"""kill -9 in the middle of a save: what was said to be saved is there, whole, for whoever comes next."""

import json
import os

from tests.needs import needs, seeds
from tests.training.migrator.workshop import PATIENCE_S, said_by

needs("torch")

SEED = int(os.environ.get("STERNA_SEED", "20260"))


def test_voda_42_killed_at_any_moment_of_a_save_the_last_one_that_was_told_is_found(tmp_path):
    rounds = len(seeds(25))
    arguments = (str(tmp_path), str(SEED), str(rounds))
    lines = said_by(tmp_path, "kill_while_saving.py", *arguments, patience_s=PATIENCE_S + 5 * rounds).splitlines()
    said = [json.loads(line) for line in lines if line.startswith("{")]
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
