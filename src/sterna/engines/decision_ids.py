"""Names of decisions, the same in logs, events and the journal: `d-3f9a01c2-17`.

The number counts the cycles of one process, or of one term of an operator that leads; the letters before it are drawn
when that begins, so that no two decisions of an installation share a name. The core knows nothing of it: a decision is
a value, and equal ones are equal.
"""

import secrets


class DecisionIds:
    def __init__(self, incarnation: str | None = None) -> None:
        self._incarnation = secrets.token_hex(4) if incarnation is None else incarnation
        self._number = 0

    def next(self) -> str:
        self._number += 1
        return f"d-{self._incarnation}-{self._number}"
