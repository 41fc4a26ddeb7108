"""Why a job got what it got: a closed list of reasons, each with a sentence and room for numbers.

The same words reach the CLI, REST, the page and Kubernetes events, so they are written for the job's owner.
"""

from enum import StrEnum
from typing import NamedTuple


class Why(StrEnum):
    # a job has workers because ...
    NEXT_IN_ORDER = "NextInOrder"
    SPARE_ROOM = "SpareRoom"
    BEST_GAIN = "BestGain"
    KEPT = "Kept"
    STARVING = "Starving"
    RECORDED = "Recorded"
    # ... or fewer or none, because ...
    NO_ROOM = "NoRoom"
    BEHIND_HEAD = "BehindHead"
    LOWER_QUEUE = "LowerQueue"
    NO_GAIN = "NoGain"
    GAVE_WAY = "GaveWay"
    SCALED_BY_OWNER = "ScaledByOwner"
    MADE_ROOM = "MadeRoom"
    COMPACTED = "Compacted"
    NO_NODE_FITS = "NoNodeFits"
    NEVER_FITS = "NeverFits"
    OTHER_PODS = "OtherPods"
    NODES_CORDONED = "NodesCordoned"
    NODES_NOT_READY = "NodesNotReady"
    NODES_REFUSED = "NodesRefused"
    NODES_FLAPPING = "NodesFlapping"
    ADMISSION_DENIED = "AdmissionDenied"
    SCHEDULING_GATED = "SchedulingGated"
    VOLUMES_NOT_READY = "VolumesNotReady"
    RULED_OUT = "RuledOut"
    RESERVED = "Reserved"
    SUSPENDED = "Suspended"
    WHOLE_SIZE = "WholeSize"
    # ... or they move, because ...
    NODE_LOST = "NodeLost"
    NODE_DRAINED = "NodeDrained"
    CROWDED_OUT = "CrowdedOut"
    REPACKED = "Repacked"
    REQUESTED = "Requested"
    REBALANCED = "Rebalanced"
    CONVERGED = "Converged"
    NODE_OVERLOADED = "NodeOverloaded"
    DEFRAGMENTED = "Defragmented"
    NODE_CLOSED = "NodeClosed"
    # ... or it belongs to a pool, because ...
    POOL_CHOSEN = "PoolChosen"
    # ... or a rebalancer looked at them and they stay, because ...
    EVEN_LOAD = "EvenLoad"
    NO_TARGET = "NoTarget"
    NOT_WORTH_IT = "NotWorthIt"
    RESTING = "Resting"
    ANOTHER_MOVED = "AnotherMoved"


_SENTENCES: dict[Why, str] = {
    Why.NEXT_IN_ORDER: "it was next in the policy's order and its workers fit",
    Why.SPARE_ROOM: "there was spare room for it to grow",
    Why.BEST_GAIN: "one more worker speeds it up more than it would any other job",
    Why.KEPT: "nothing speaks for a change",
    Why.STARVING: "it has waited so long that room is made for it",
    Why.RECORDED: "this is what the recorded decision said",
    Why.NO_ROOM: "jobs ahead of it in the policy's order take all the room",
    Why.BEHIND_HEAD: "the job at the head of the queue must start first",
    Why.LOWER_QUEUE: "it has used up its service in the higher queue, and jobs there take all the room",
    Why.NO_GAIN: "more workers would not make it faster",
    Why.GAVE_WAY: "others came or grew, and this is its share of the room now",
    Why.SCALED_BY_OWNER: "its owner lowered its largest size",
    Why.MADE_ROOM: "it gave up workers so that a job that waited too long can start",
    Why.COMPACTED: "many jobs wait, so jobs in the lower queue are cut to their minimum",
    Why.NO_NODE_FITS: "there is enough in total, but no set of nodes has room for its minimum",
    Why.NEVER_FITS: "no nodes that admit it could hold its minimum, even if they were empty: it can never start",
    Why.OTHER_PODS: "pods that are no training jobs take the room that it needs at least",
    Why.NODES_CORDONED: "the nodes that could hold it are cordoned",
    Why.NODES_NOT_READY: "the nodes that could hold it are not ready",
    Why.NODES_REFUSED: "the nodes that could hold it refused its workers and are left alone for a while",
    Why.NODES_FLAPPING: "the nodes that could hold it came and went too often, and must be steady for a while first",
    Why.ADMISSION_DENIED: "a quota or a policy of the cluster does not let its workers in; it is tried again later",
    Why.SCHEDULING_GATED: "its pod templates have scheduling gates, which whatever put them there removes",
    Why.VOLUMES_NOT_READY: "a volume that its workers mount cannot be used yet",
    Why.RULED_OUT: "nodes have room for it, but a rule about which pods may be near each other keeps it out of them",
    Why.RESERVED: "the room that is free is kept for a job that has waited longer",
    Why.SUSPENDED: "its owner suspended it",
    Why.WHOLE_SIZE: "the policy gives it its whole size or nothing, and there is no room for all of it",
    Why.NODE_LOST: "the node it was on is not ready",
    Why.NODE_DRAINED: "the node it was on is being emptied",
    Why.CROWDED_OUT: "pods that are not training, or a broken card, took the room it had",
    Why.REPACKED: "fewer nodes are crossed this way",
    Why.REQUESTED: "it was asked to move",
    Why.REBALANCED: "another node suits it better",
    Why.CONVERGED: "its model hardly improves any more, so it leaves the crowded node to those that do",
    Why.NODE_OVERLOADED: "its node is loaded far above the mean of all nodes",
    Why.DEFRAGMENTED: "its room, joined with what is free beside it, is worth more than the pause of a move",
    Why.NODE_CLOSED: "the node it was on takes no new work any more",
    Why.POOL_CHOSEN: "it names no accelerator, and this is the first pool that suits it",
    Why.EVEN_LOAD: "no other node is so much less loaded that a move would help",
    Why.NO_TARGET: "the nodes that are less loaded have no room for it, or do not admit it",
    Why.NOT_WORTH_IT: "a move would cost more than it brings before the job ends",
    Why.RESTING: "it moved so recently or so often that it is left alone for now",
    Why.ANOTHER_MOVED: "another one moved in this round; it may be next",
}


class Because(NamedTuple):
    """A reason with its numbers, as data first and as a sentence when asked."""

    why: Why
    numbers: tuple[tuple[str, int | float | str], ...] = ()

    @property
    def sentence(self) -> str:
        text = _SENTENCES[self.why]
        if not self.numbers:
            return text
        numbers = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.numbers)
        return f"{text} ({numbers})"


NEXT_IN_ORDER = Because(Why.NEXT_IN_ORDER)
SPARE_ROOM = Because(Why.SPARE_ROOM)
NO_ROOM = Because(Why.NO_ROOM)
KEPT = Because(Why.KEPT)
