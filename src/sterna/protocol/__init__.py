"""The messages between a training process and its engine: two small files in a mailbox, and datagrams that only wake.

Values (`Orders`, `Status`), how they get into and out of the mailbox directory, and the names of the environment
variables that tell a worker who it is. Standard library only, and nothing here decides anything: what a worker does
about an order is `sterna.training`'s matter, what an engine does about a status is the engine's.

Files are the truth. A datagram carries nothing but "look again"; losing one costs time, never correctness.
"""

from sterna.protocol.environment import STERNA_VARIABLES, BadEnvironment, WorkerIdentity, worker_environment
from sterna.protocol.lastword import LAST_WORD_BYTES_MAX, write_last_word
from sterna.protocol.mailbox import read_orders, read_status, write_orders, write_status
from sterna.protocol.messages import CommittedCheckpoint, Order, Orders, Status, WorkerPhase
from sterna.protocol.wake import WakeSocket, wake_engine, wake_worker

__all__ = [
    "LAST_WORD_BYTES_MAX",
    "STERNA_VARIABLES",
    "BadEnvironment",
    "CommittedCheckpoint",
    "Order",
    "Orders",
    "Status",
    "WakeSocket",
    "WorkerIdentity",
    "WorkerPhase",
    "read_orders",
    "read_status",
    "wake_engine",
    "wake_worker",
    "worker_environment",
    "write_last_word",
    "write_orders",
    "write_status",
]
