"""The GPUs of all nodes while one layout is being made: which are wholly free, which are shared and how far.

k whole GPUs take k wholly free cards, lowest id first. A share of a GPU goes on the first card that is shared already
and has enough share and memory left, else it opens a wholly free card. A holder of a share that names no card of the
node, since the card was not picked here, is counted by the sum: three shares of 334 take two cards. A card that two
holders name has a free share below 0, until one of them leaves.
"""

from collections import defaultdict

from sterna.model.ids import DeviceId
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.placement.frame import MEMORY_DIFFERS, Frame

UNCHECKED_BYTES = 1 << 62  # the memory of a card whose memory is unknown


class Cards:
    """Nodes are given by their position in the frame."""

    __slots__ = ("_nameless_milli", "frame", "named", "shared", "wholly_free")

    def __init__(self, frame: Frame, wholly_free: list[int]) -> None:
        self.frame = frame
        self.wholly_free = wholly_free
        self.named = [0] * len(wholly_free)  # cards that are held, wholly or in part: the sum of their bits
        self.shared: defaultdict[int, dict[DeviceId, tuple[int, int]]] = defaultdict(dict)  # free share, free bytes
        self._nameless_milli: dict[int, int] = {}  # shares held on cards without a known name

    def copy(self) -> "Cards":
        twin = Cards(self.frame, self.wholly_free.copy())
        twin.named = self.named.copy()
        twin.shared.update((at, dict(shares)) for at, shares in self.shared.items())
        twin._nameless_milli.update(self._nameless_milli)
        return twin

    def shares_at(self, at: int, milli: int, gpu_bytes: int) -> int:
        """How many shares of this kind fit on this node."""
        fit = sum(_shares(*left, milli, gpu_bytes) for left in self.shared[at].values()) if at in self.shared else 0
        whole = self.wholly_free[at]
        if whole <= 0:
            return fit
        size = self.frame.uniform_bytes[at]
        if size != MEMORY_DIFFERS:
            return fit + whole * _shares(WHOLE_GPU_MILLI, size or UNCHECKED_BYTES, milli, gpu_bytes)
        each = [
            _shares(WHOLE_GPU_MILLI, size or UNCHECKED_BYTES, milli, gpu_bytes)
            for card, size in self.frame.card_bytes[at].items()
            if not self._is_named(at, card)
        ]
        return fit + sum([count for count in each if count][:whole])

    def pick(self, at: int, milli: int, gpu_bytes: int) -> tuple[DeviceId, ...]:
        """The cards that one more worker gets here. There must be room."""
        named = self.named[at]
        if not milli % WHOLE_GPU_MILLI:
            free = [card for card, bit in self.frame.bits[at].items() if not named & bit]
            return tuple(free[: milli // WHOLE_GPU_MILLI])
        sizes, shared = self.frame.card_bytes[at], self.shared[at]
        for card in sizes:
            left = shared.get(card)
            if left is not None and left[0] >= milli and left[1] >= gpu_bytes:
                return (card,)
        enough = (card for card, size in sizes.items() if not size or size >= gpu_bytes)
        return (next(card for card in enough if not self._is_named(at, card)),)

    def occupy(self, at: int, milli: int, gpu_bytes: int, devices: tuple[DeviceId, ...]) -> None:
        if milli % WHOLE_GPU_MILLI:
            if devices and devices[0] in self.frame.bits[at]:
                self._occupy_share(at, milli, gpu_bytes, devices[0])
            else:
                self._count_nameless(at, milli)
            return
        self.wholly_free[at] -= milli // WHOLE_GPU_MILLI
        for card in devices:
            if self._is_named(at, card):
                self.wholly_free[at] += 1  # it was not free before
                self._occupy_share(at, WHOLE_GPU_MILLI, 0, card)
            else:
                self.named[at] |= self.frame.bits[at].get(card, 0)

    def give(self, at: int, milli: int, gpu_bytes: int, devices: tuple[DeviceId, ...]) -> None:
        """`occupy` undone."""
        if milli % WHOLE_GPU_MILLI:
            if devices and devices[0] in self.frame.bits[at]:
                self._give_share(at, milli, gpu_bytes, devices[0])
            else:
                self._count_nameless(at, -milli)
            return
        self.wholly_free[at] += milli // WHOLE_GPU_MILLI
        for card in devices:
            if at in self.shared and card in self.shared[at]:
                self.wholly_free[at] -= 1  # another holder names it, too
                self._give_share(at, WHOLE_GPU_MILLI, 0, card)
            else:
                self.named[at] &= ~self.frame.bits[at].get(card, 0)

    def is_overdrawn(self, at: int) -> bool:
        """Is more of some shared card here held than there is of it?"""
        return at in self.shared and any(min(left) < 0 for left in self.shared[at].values())

    def is_card_overdrawn(self, at: int, card: DeviceId) -> bool:
        return at in self.shared and min(self.shared[at].get(card, (0, 0))) < 0

    def forgive(self) -> None:
        """Where more is held than there is, say that nothing is left; the excess takes other cards of the node."""
        for at, shares in self.shared.items():
            self._count_nameless(at, sum(max(0, -milli) for milli, _ in shares.values()))
            for card, (milli, size) in shares.items():
                shares[card] = (max(0, milli) if self.wholly_free[at] >= 0 else 0, max(0, size))
        self.wholly_free[:] = [max(0, left) for left in self.wholly_free]

    def _occupy_share(self, at: int, milli: int, gpu_bytes: int, card: DeviceId) -> None:
        left = self.shared[at].get(card)
        if left is None:
            size = self.frame.card_bytes[at][card] or UNCHECKED_BYTES
            if self._is_named(at, card):
                left = (0, size)
            else:
                left = (WHOLE_GPU_MILLI, size)
                self.named[at] |= self.frame.bits[at][card]
                self.wholly_free[at] -= 1
        self.shared[at][card] = (left[0] - milli, left[1] - gpu_bytes)

    def _give_share(self, at: int, milli: int, gpu_bytes: int, card: DeviceId) -> None:
        free_milli, free_bytes = self.shared[at][card]
        self.shared[at][card] = (free_milli + milli, free_bytes + gpu_bytes)
        if free_milli + milli == WHOLE_GPU_MILLI:  # the last one closes the card
            del self.shared[at][card]
            self.named[at] &= ~self.frame.bits[at][card]
            self.wholly_free[at] += 1

    def _count_nameless(self, at: int, milli: int) -> None:
        before = self._nameless_milli.get(at, 0)
        self._nameless_milli[at] = before + milli
        self.wholly_free[at] -= _whole_cards(before + milli) - _whole_cards(before)

    def _is_named(self, at: int, card: DeviceId) -> bool:
        return bool(self.named[at] & self.frame.bits[at].get(card, 0))


def _shares(free_milli: int, free_bytes: int, milli: int, gpu_bytes: int) -> int:
    """How many such shares one card with this much left can hold."""
    fit = free_milli // milli
    if gpu_bytes:
        fit = min(fit, free_bytes // gpu_bytes)
    return fit if fit > 0 else 0


def _whole_cards(milli: int) -> int:
    return -(-milli // WHOLE_GPU_MILLI)
