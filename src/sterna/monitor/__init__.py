"""The monitor of a node: hears what training processes say, looks at what they use, and tells the scheduler.

Runs as a program of its own (`sterna monitor`, a DaemonSet on Kubernetes) or inside the local engine. It judges
nothing: how a value grows and what follows from it is the scheduler's to say. Knows the protocol and the small HTTP
server, and stays small itself.
"""

from sterna.monitor.forwarding import Deliver, NotTaken, TryLater, by_http
from sterna.monitor.monitor import Monitor, Settings
from sterna.monitor.surroundings import Pattern
from sterna.monitor.watched import Watched

__all__ = ["Deliver", "Monitor", "NotTaken", "Pattern", "Settings", "TryLater", "Watched", "by_http"]
