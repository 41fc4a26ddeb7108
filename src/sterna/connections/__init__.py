"""Which connections a listening port takes and keeps: in all, per address, and for how long without a request.

Knows sockets and time, no HTTP: the protocol behind it is the server library's, which limits what it reads. What that
library does not do is here: counts, deadlines, and an accept loop that survives a lack of files.
"""

from sterna.connections.admission import Admission
from sterna.connections.connection_limits import VARIABLE, Limits, limits_from
from sterna.connections.seldom import Seldom

__all__ = ["VARIABLE", "Admission", "Limits", "Seldom", "limits_from"]
