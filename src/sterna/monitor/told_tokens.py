"""Which tokens this node's jobs have, as the scheduler says; a monitor has no secret to check them by.

The scheduler tells digests, which are enough to know a token and not to make one. It is asked when a token comes in
that is not known, at most once in a while however many come, and now and then, so that tokens of old secrets are
forgotten. What it said last holds until it says something else: tokens stay known while it is away.
"""

from collections.abc import Callable, Mapping

from sterna.protocol.tokens import TokenOwner

ASK_AGAIN_S = 1.0  # least time between two questions because of unknown tokens
OLD_S = 600.0  # what was said so long ago is asked again


class ToldTokens:
    def __init__(self, *, clock: Callable[[], float], ask: Callable[[], None]) -> None:
        self.owners: Mapping[str, TokenOwner] = {}  # by digest
        self._clock = clock
        self._ask = ask
        self._asked_s: float | None = None
        self._told_s: float | None = None  # None: not yet

    def take(self, tokens: Mapping[str, str]) -> None:
        """All that there are, by digest: namespace/name/uid."""
        said = {digest: job.split("/") for digest, job in tokens.items()}
        self.owners = {digest: TokenOwner(*parts) for digest, parts in said.items() if len(parts) == 3 and parts[1]}
        self._told_s = self._clock()

    def met_stranger(self) -> bool:
        """A token came in that is not known. Might the scheduler know it? False: it said just now which it knows."""
        now_s = self._clock()
        if self._told_s is not None and 0 <= now_s - self._told_s < ASK_AGAIN_S:
            return False
        if self._asked_s is None or not 0 <= now_s - self._asked_s < ASK_AGAIN_S:
            self._asked_s = now_s
            self._ask()
        return True

    def refresh(self) -> None:
        """Ask again if what was said is old."""
        if self._told_s is not None and self._clock() - self._told_s >= OLD_S:
            self._ask()
