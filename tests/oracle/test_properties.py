"""What every policy promises in every small world, held against the oracle once the world is at rest.

No decision raises or asks to be woken in the past; every size is on its job's grid; the world comes to rest within
`CYCLES_MAX` cycles; what is in the way of a job that could not start even alone is said exactly; and nobody waits whom
the oracle can seat beside what runs, or with what runs at its minimum, unless the policy's own rule says so and the
reason names that rule (`RULES`). Worlds come from their number: even ones are placed by the policy's own placement, odd
ones by each of the others in turn; every sixth has `--starving-after`, and is asked less, since then jobs take turns
for ever.
"""

import os
from dataclasses import dataclass, replace
from functools import cache

import pytest

from sterna.model.nodes import Cluster
from sterna.model.snapshot import Snapshot
from sterna.model.why import Why
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings
from sterna.planner.lanes import share_for_gpuless
from sterna.planner.reasons import Reasons
from sterna.policies.registry import Policy, policy
from tests.oracle.search import can_start_beside, can_start_with_others_at_minimum, in_the_way
from tests.oracle.settling import Settled, settled
from tests.oracle.worlds import small_world
from tests.planner.test_properties import VARIANTS, names

WORLDS = int(os.environ.get("STERNA_WORLDS", "300"))  # of each policy; `make soak` asks for more
BATCHES = 6
PLACEMENTS = ("repack", "widest", "widest-smallest-first", "spread")  # beside the policy's own; none is for sums only
NONE: frozenset[Why] = frozenset()
DOUBTS = frozenset({Why.NODES_FLAPPING, Why.NODES_NOT_READY})  # also where other jobs take the room elsewhere
ALONE = DOUBTS | {Why.NEVER_FITS, Why.OTHER_PODS, Why.NODES_CORDONED}  # whatever other jobs do


@dataclass(frozen=True)
class Rule:
    """Why a policy leaves a job waiting that could be seated, and what the job is then told."""

    says: str
    beside: frozenset[Why] = NONE  # though it would fit beside what runs
    at_minimum: frozenset[Why] = NONE  # though it would fit with what runs at its minimum
    rests: bool = True  # does a world in which nothing happens come to rest?


_RIGID = Rule(
    "a job gets its whole size or nothing, and who runs is not shrunk",
    beside=frozenset({Why.WHOLE_SIZE}),
    at_minimum=frozenset({Why.WHOLE_SIZE, Why.NO_ROOM, Why.NO_NODE_FITS, Why.LOWER_QUEUE}),
)
_FILLS = Rule("each takes as much as it may before the next is looked at", at_minimum=frozenset({Why.NO_ROOM}))
_DRAGON = Rule(
    "nobody overtakes the job that room is made for, and room is made for one at a time",
    beside=frozenset({Why.RESERVED}),
    at_minimum=frozenset({Why.RESERVED}),
)
_WEIGHS = Rule(
    "a first helping is weighed against another's next one, and what a queue above takes comes first",
    at_minimum=frozenset({Why.NO_ROOM, Why.LOWER_QUEUE}),
)
_GREEDY = frozenset({Why.NO_NODE_FITS})  # DRAGON's own placing tries one node, then goes greedily; nobody repairs it
RULES: dict[str, Rule] = {
    **dict.fromkeys(("srtf", "srsf", "tiresias", "las"), _RIGID),
    "tiresias-voda": replace(_RIGID, rests=False),  # Voda's promotion: jobs take turns
    **dict.fromkeys(("elastic-srsf", "elastic-fifo-afs"), _FILLS),
    **dict.fromkeys(("elastic-tiresias", "afs-l-voda"), _WEIGHS),
    "elastic-tiresias-voda": replace(_WEIGHS, rests=False),
    **dict.fromkeys(
        ("dragon", "dragon-prototype"),
        replace(_DRAGON, beside=_DRAGON.beside | _GREEDY, at_minimum=_DRAGON.at_minimum | _GREEDY),
    ),
    "dragon-erudite": Rule(
        "room is made only for a priority above all that run; else as in DRAGON",
        beside=_DRAGON.beside | _GREEDY,
        at_minimum=_DRAGON.at_minimum | _GREEDY,
    ),
    "dragon-balanced": Rule(
        "the head gets all that it asked for, or waits; else as in DRAGON",
        beside=_DRAGON.beside | _GREEDY | {Why.WHOLE_SIZE},
        at_minimum=_DRAGON.at_minimum | _GREEDY | {Why.WHOLE_SIZE},
    ),
}
MINIMUMS_FIRST = Rule("every minimum that fits comes before any growth")


@pytest.mark.parametrize("batch", range(BATCHES), ids=lambda batch: f"batch {batch}")
@pytest.mark.parametrize("case", VARIANTS, ids=names)
def test_nobody_waits_whom_the_oracle_can_seat(case, batch):
    chosen, rule = policy(*case), RULES.get(names(case), MINIMUMS_FIRST)
    wrong: list[str] = []
    for seed in range(batch, WORLDS, BATCHES):
        wrong += [f"world {seed} ({placement_for(chosen, seed)}): {what}" for what in _wrong_in(chosen, rule, seed)]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize(
    ("seed", "variant"),
    [
        pytest.param(11869, "elastic-srsf", id="who waited without hope took back another's cut, every other cycle"),
        pytest.param(13327, "elastic-tiresias", id="who could come back did not, as a third one found no seat then"),
        pytest.param(18170, "elastic-srsf", id="who could come back did not, as the policy prefers a fourth one then"),
    ],
)
def test_a_world_that_once_failed(seed, variant):
    chosen = policy(*next(case for case in VARIANTS if names(case) == variant))
    assert _wrong_in(chosen, RULES.get(variant, MINIMUMS_FIRST), seed) == []


def placement_for(chosen: Policy, seed: int) -> str:
    own = seed % 2 == 0 or chosen.entry.placement == "dragon"
    return chosen.placement if own else PLACEMENTS[seed // 2 % len(PLACEMENTS)]


def _wrong_in(chosen: Policy, rule: Rule, seed: int) -> list[str]:
    view = _world(seed)
    starving = 60.0 if seed % 6 == 5 else None
    end = settled(view, chosen, placement(placement_for(chosen, seed)), Settings(starving_after_s=starving))
    wrong = [*_off_grid(end.view), *_verdicts(end)]
    if starving is None:
        wrong += [] if end.at_rest or not rule.rests else ["restless: " + " | ".join(end.history[-3:])]
        wrong += _left_waiting(end, rule) if end.at_rest else []
    return wrong


@cache
def _world(seed: int) -> Snapshot:
    return small_world(seed)


def _off_grid(view: Snapshot) -> list[str]:
    sizes = ((job, job.spec.allowed_size(job.size)) for job in view.jobs if job.size)
    return [f"{job.id} holds {job.size}, which is not on its grid" for job, size in sizes if size != job.size]


def _verdicts(end: Settled) -> list[str]:
    """Is each job that could not start even alone told exactly what is in the way, and no other job?

    One that could start beside what runs, were no node in doubt, may be told of that doubt.
    """
    undoubted = _undoubted(end.view)
    share = share_for_gpuless(end.view.cluster, None)
    reasons = Reasons(end.view, end.decision)
    wrong: list[str] = []
    for job in end.view.jobs:
        if job.size or not job.wants_workers or end.decision.layout.workers_of(job.id):
            continue
        right, why = in_the_way(end.view, job, idle_cpu_share=share), reasons.of(job).why
        if right is None and why in DOUBTS and can_start_beside(undoubted, job, idle_cpu_share=share):
            continue
        if right is not (why if why in ALONE else None):
            wrong.append(f"{job.id} is told {why}, and alone {right or 'it could start'}")
    return wrong


def _undoubted(view: Snapshot) -> Snapshot:
    return replace(view, cluster=Cluster.of(node.undoubted for node in view.nodes))


def _left_waiting(end: Settled, rule: Rule) -> list[str]:
    share = share_for_gpuless(end.view.cluster, None)
    reasons = Reasons(end.view, end.decision)
    wrong: list[str] = []
    for job in end.view.jobs:
        if job.size or not job.wants_workers:
            continue
        why = reasons.of(job).why
        if why in DOUBTS:
            why = end.decision.because_of(job.id).why
        if can_start_beside(end.view, job, idle_cpu_share=share):
            if why not in rule.beside:
                wrong.append(f"{job.id} could start beside what runs and is told {why}")
        elif why not in rule.at_minimum and can_start_with_others_at_minimum(end.view, job, idle_cpu_share=share):
            wrong.append(f"{job.id} could start with others at their minimum and is told {why}")
    return wrong
