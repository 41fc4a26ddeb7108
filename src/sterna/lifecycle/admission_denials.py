"""Admission's no: a quota, a policy or a webhook does not let a job's workers in, and how the job waits for it. Pure.

Workers that are refused are tried again for a bounded time, in which others may come in. Then the job gives back what
it cannot use: it trains on, or starts anew, with as many as were let in where that is a size it may have, and otherwise
waits without asking for anything, so that others get its room. After a pause that doubles each time, or as soon as its
owner edits the job, the engine asks whether one more worker would be let in, without making it, and again within two
minutes if it would not: quotas and policies change unseen. Only then the job asks for room again. Once more workers
train than were let in before, the past is forgotten.
"""

import re
import zlib
from typing import NamedTuple

from sterna.model.jobs import JobSpec
from sterna.model.why import Because, Why

PATIENCE_S = 30.0  # how long refused workers are tried again before their seats are given back
FIRST_S = 30.0
MOST_S = 600.0
ASKED_WITHIN_S = 120.0  # asking takes no room, so what a quota or a policy lets in meanwhile is found out sooner
WORDS_MAX = 400
_SPREAD = 0.25  # of a pause: jobs that were denied together do not all come back together
_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class Answer(NamedTuple):
    """Would one more worker be let in?"""

    let_in: bool
    words: str = ""  # the server's own, where it would not


class Denial(NamedTuple):
    words: str  # the server's own, cleaned
    times: int = 0  # in a row that seats were given back
    since_s: float | None = None  # workers have been refused since then, and are tried again. None: none is
    until_s: float | None = None  # the job asks for no more than `size` until then. None: it may be tried
    size: int = 0  # so many elastic workers were let in
    generation: int = 0  # of the job's spec that was refused

    @property
    def because(self) -> Because:
        return Because(Why.ADMISSION_DENIED, (("answer", self.words),))

    @property
    def tries(self) -> bool:
        """Are workers refused that the job holds seats for?"""
        return self.since_s is not None

    @property
    def in_force(self) -> bool:
        """Does the job ask for no more than was let in?"""
        return self.until_s is not None


def cleaned(words: str) -> str:
    """What a server, or a webhook behind it, said: one line of bounded length that paints on no terminal."""
    text = _UNPRINTABLE.sub(" ", words).strip() or "no reason was given"
    return text if len(text) <= WORDS_MAX else f"{text[: WORDS_MAX - 3]}..."


def refused(known: Denial | None, words: str, now_s: float, *, generation: int) -> Denial:
    """After workers were refused. The words change with every try (`used: pods=2`), so the first ones are kept."""
    if known is not None and known.tries:
        return known
    base = known or Denial("")
    return base._replace(words=cleaned(words), since_s=now_s, generation=generation)


def let_in(known: Denial) -> Denial:
    """After the workers that were refused came in, or are not wanted any more."""
    return known._replace(since_s=None)


def is_due(known: Denial, now_s: float, patience_s: float) -> bool:
    """Has the job been refused for so long that it gives its seats back?"""
    return known.since_s is not None and now_s >= known.since_s + patience_s


def size_let_in(spec: JobSpec, *, held: int, let_in: int) -> int:
    """The size that the job may have with as many workers, fixed ones included, as were let in; always below `held`,
    the elastic ones that it was to have. 0: there is none."""
    return spec.allowed_size(min(held - 1, let_in - spec.fixed_count))


def given_back(known: Denial, now_s: float, *, size: int, identity: str) -> Denial:
    """After the job gave back the seats of workers that were refused; `size` elastic workers were let in."""
    times = known.times + 1
    pause_s = min(MOST_S, FIRST_S * 2.0 ** min(times - 1, 20)) * (1.0 - _SPREAD * _share(identity))
    return known._replace(times=times, since_s=None, until_s=now_s + pause_s, size=size)


def may_ask(known: Denial | None, now_s: float, *, generation: int) -> bool:
    """Is it time to find out whether more would be let in: is the pause over, or was the job edited?"""
    if known is None or known.until_s is None:
        return False
    return now_s >= known.until_s or generation != known.generation


def asked(known: Denial, answer: Answer, now_s: float, *, generation: int, identity: str) -> Denial:
    """After it was found out: the job may ask for more, or waits longer."""
    if answer.let_in:
        return known._replace(until_s=None)
    fresh = known._replace(words=cleaned(answer.words), generation=generation)
    later = given_back(fresh, now_s, size=known.size, identity=identity)
    return later if later.until_s is None else later._replace(until_s=min(later.until_s, now_s + ASKED_WITHIN_S))


def forgiven(known: Denial | None, size: int) -> Denial | None:
    """After the whole gang of this size trains. None: nothing is left to remember."""
    if known is None or known.tries or known.in_force or size <= known.size:
        return known
    return None


def next_moment_s(known: Denial | None, patience_s: float) -> float | None:
    """When there is something to decide about it although nothing happens."""
    if known is None:
        return None
    return known.since_s + patience_s if known.since_s is not None else known.until_s


def in_words(denial: Denial, *, let_in: int, held: int, kept: int) -> str:
    """For the event that tells that seats were given back."""
    what = "it gives its room back and is tried again later"
    if denial.size:
        how = "goes on" if kept else "starts anew"
        what = f"it {how} with {denial.size} worker{'s' if denial.size != 1 else ''}"
    return f"{let_in} of {held} pods were let in, {what}: {denial.words}"


def _share(identity: str) -> float:
    """Between 0 and 1, always the same for one job."""
    return zlib.crc32(identity.encode()) / 0xFFFFFFFF
