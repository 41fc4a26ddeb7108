"""A process's life goes forward only, in whatever order facts about it come in."""

from dataclasses import dataclass, field
from itertools import permutations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sterna.engines.local.launch.warden.values import Exited, HookEnded, ProcessPhase, ProcessState
from sterna.engines.local.reconcile.process_facts import Known

UID = "a-worker-0-abcde"
UNHEARD = Known()


def state(phase: ProcessPhase, *, code: int = 0, notes: tuple[str, ...] = (), hooks: int = 0) -> ProcessState:
    end = Exited(code, None, 0.0, 0.0, False, False, False, 0.0, 0, "") if phase is ProcessPhase.EXITED else None
    ran = tuple(HookEnded(str(number), 0, None, False, "") for number in range(hooks))
    return ProcessState(UID, phase, 7, 0.0, 0.0, exited=end, hooks=ran, notes=notes)


STARTING, RUNNING, STOPPING = state(ProcessPhase.STARTING), state(ProcessPhase.RUNNING), state(ProcessPhase.STOPPING)
EXITED, FAILED, LOST = state(ProcessPhase.EXITED, code=1), state(ProcessPhase.FAILED), state(ProcessPhase.LOST)


@pytest.mark.parametrize(
    ("known", "told", "then"),
    [
        pytest.param(UNHEARD, RUNNING, RUNNING, id="it runs"),
        pytest.param(UNHEARD, EXITED, EXITED, id="it ended before anybody said that it ran"),
        pytest.param(Known(RUNNING), STOPPING, STOPPING, id="it was asked to end"),
        pytest.param(Known(STOPPING), RUNNING, STOPPING, id="the answer to its start comes after that to its stop"),
        pytest.param(Known(RUNNING), EXITED, EXITED, id="it ended"),
        pytest.param(Known(EXITED), RUNNING, EXITED, id="the answer to its start comes after its end"),
        pytest.param(Known(EXITED), STOPPING, EXITED, id="the answer to its stop comes after its end"),
        pytest.param(Known(FAILED), STARTING, FAILED, id="a census of the past comes after it could not start"),
        pytest.param(Known(LOST), RUNNING, LOST, id="what is lost does not run again"),
        pytest.param(Known(EXITED), LOST, EXITED, id="the next warden knows less of its end than was told"),
        pytest.param(Known(LOST), EXITED, EXITED, id="how it ended is worth more than that it is gone"),
        pytest.param(
            Known(EXITED), state(ProcessPhase.EXITED, code=0), EXITED, id="an end that was told stays as it was told"
        ),
        pytest.param(
            Known(RUNNING),
            state(ProcessPhase.RUNNING, hooks=1),
            state(ProcessPhase.RUNNING, hooks=1),
            id="its hook ended meanwhile",
        ),
        pytest.param(
            Known(state(ProcessPhase.RUNNING, notes=("n",))),
            RUNNING,
            state(ProcessPhase.RUNNING, notes=("n",)),
            id="a note stays",
        ),
        pytest.param(UNHEARD.forgot(), EXITED, None, id="what is forgotten is not heard of again"),
        pytest.param(UNHEARD.forgot(), RUNNING, None, id="... and does not come to life"),
    ],
)
def test_a_fact_about_an_earlier_part_of_its_life_says_nothing_new(known, told, then):
    assert known.told(told).state == then


@pytest.mark.parametrize(
    ("known", "phase"),
    [
        pytest.param(Known(RUNNING), ProcessPhase.LOST, id="one that ran is gone"),
        pytest.param(UNHEARD, ProcessPhase.LOST, id="one that ran before the engine started is gone"),
        pytest.param(Known(EXITED), ProcessPhase.EXITED, id="one whose end was told meanwhile ended as told"),
        pytest.param(Known(FAILED), ProcessPhase.FAILED, id="one that could not start still could not"),
    ],
)
def test_a_process_that_the_warden_denies(known, phase):
    assert known.denied(UID).state.phase is phase


def test_a_process_that_is_forgotten_and_denied_is_forgotten():
    assert Known(EXITED).forgot().denied(UID) == Known(forgotten=True)


def test_the_order_of_facts_never_matters():
    facts = (STARTING, RUNNING, STOPPING, LOST, EXITED)
    for count in range(1, len(facts) + 1):
        ends = set()
        for order in permutations(facts[:count]):
            known = UNHEARD
            for fact in order:
                known = known.told(fact)
            ends.add(known)
        assert ends == {Known(facts[count - 1])}


def test_every_phase_has_a_place_in_that_order():
    for phase in ProcessPhase:
        assert UNHEARD.told(state(phase)).state == state(phase)


@dataclass
class Letter:
    """Something on its way to the engine."""

    told: ProcessState | None  # None: the warden does not know of it
    held: bool = False  # what the engine believed when it asked


@dataclass
class World:
    """One process and its warden, as they really are."""

    state: ProcessState | None = None
    ends: list[ProcessState] = field(default_factory=list)


class Interleavings(RuleBasedStateMachine):
    """Every fact is true when it is sent, and arrives whenever chance has it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.known = Known()
        self.post: list[Letter] = []
        self.seen_ended = False
        self.forget_sent = self.forgotten = False

    # -- what happens to the process ----------------------------------------------------------------

    @precondition(lambda self: self.world.state is None and not self.world.ends)
    @rule()
    def begin(self) -> None:
        self.world.state = RUNNING
        self.post.append(Letter(RUNNING))  # the answer to `start`

    @precondition(lambda self: self.world.state is not None and self.world.state.alive)
    @rule(code=st.integers(0, 3))
    def end(self, code: int) -> None:
        self.world.state = state(ProcessPhase.EXITED, code=code)
        self.world.ends.append(self.world.state)
        self.post.append(Letter(self.world.state))  # pushed

    @precondition(lambda self: self.world.state is not None and self.world.state.alive)
    @rule()
    def warden_dies(self) -> None:
        self.world.state = LOST
        self.world.ends.append(LOST)

    # -- what the engine asks ----------------------------------------------------------------

    @precondition(lambda self: self.world.state is not None)
    @rule()
    def stop(self) -> None:
        if self.world.state is not None and self.world.state.alive:
            self.world.state = self.world.state._replace(phase=ProcessPhase.STOPPING)
        self.post.append(Letter(self.world.state))

    @rule()
    def census(self) -> None:
        held = self.known.state is not None and self.known.state.alive
        self.post.append(Letter(self.world.state, held=held))

    @precondition(lambda self: self.known.state is not None and not self.known.state.alive and not self.forget_sent)
    @rule()
    def forget(self) -> None:
        self.world.state, self.forget_sent = None, True

    @precondition(lambda self: self.forget_sent and not self.forgotten)
    @rule()
    def forget_answered(self) -> None:
        self.known, self.forgotten = self.known.forgot(), True

    # -- what arrives ----------------------------------------------------------------

    @precondition(lambda self: self.post)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        self._note(self.post.pop(data.draw(st.integers(0, len(self.post) - 1))))

    def _note(self, letter: Letter) -> None:
        if letter.told is not None:
            self.known = self.known.told(letter.told)
        elif letter.held:
            self.known = self.known.denied(UID)

    # -- what holds ----------------------------------------------------------------

    @invariant()
    def nothing_comes_back_to_life(self) -> None:
        ended = self.known.forgotten or (self.known.state is not None and not self.known.state.alive)
        assert ended or not self.seen_ended
        self.seen_ended = ended

    @invariant()
    def no_end_is_made_up(self) -> None:
        if self.known.state is not None and not self.known.state.alive:
            assert self.known.state in self.world.ends

    def teardown(self) -> None:
        """When everything has arrived, and a last census with it, the engine knows what there is to know."""
        while self.post:
            self._note(self.post.pop(0))
        held = self.known.state is not None and self.known.state.alive
        self._note(Letter(self.world.state, held=held))
        if self.forgotten:
            assert self.known == Known(forgotten=True)
        elif not self.forget_sent and self.world.state is not None:
            assert self.known.state == self.world.state


TestInterleavings = Interleavings.TestCase
