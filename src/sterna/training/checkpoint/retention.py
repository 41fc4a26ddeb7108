"""Letting go of old generations: the newest complete ones stay, with one of the damaged ones for whoever wants to look.

A directory is renamed first and emptied then, so that a crash in between leaves no half a generation under a good name.
"""

import os
import re
from pathlib import Path

from sterna.training.checkpoint.disk import Disk
from sterna.training.checkpoint.fence import Fence
from sterna.training.checkpoint.generations import Manifest, found, order_of, unless_read

BAD = "bad-"  # what a damaged generation's name begins with once it has been set aside
_TRASH = "trash-"
_SESSION = re.compile(r"\.{1,2}session-i(\d{1,15})-r")  # with two dots: one that a crash left unfinished


def retain(disk: Disk, directory: Path, fence: Fence, incarnation: int, keep: int) -> None:
    """Remove what is no longer needed. For rank 0, after a save: then it knows that no older one is under way."""
    complete = [one.generation.name for one in found(directory, fence) if isinstance(one, Manifest)]
    if not complete:
        return
    newest = order_of(complete[0])
    assert newest is not None  # `found` lists nothing else
    damaged: list[tuple[tuple[int, int], str]] = []
    for name in sorted(os.listdir(directory)):
        order = order_of(name)
        if name.startswith(_TRASH):
            disk.remove_tree(directory / name)
        elif (session := _SESSION.match(name)) and int(session[1]) < incarnation:
            disk.remove(directory / name)
        elif order is not None and name not in complete[:keep] and (order < newest or not fence.admits(order)):
            discard(disk, directory / name)
        elif name.startswith(BAD):
            damaged.append((order_of(name.removeprefix(BAD)) or (0, 0), name))
    for _, name in sorted(damaged)[:-1]:
        discard(disk, directory / name)


def discard(disk: Disk, path: Path) -> None:
    """Remove a generation, unless somebody is reading it."""
    with unless_read(path) as unread:
        if not unread:
            return
        trash = path.with_name(f"{_TRASH}{path.name}")
        disk.remove_tree(trash)  # if a crash left one of this name
        disk.rename(path, trash)
    disk.remove_tree(trash)


def set_aside(disk: Disk, path: Path) -> None:
    """Take a damaged generation out of the way under a name that nobody loads."""
    aside = path.with_name(f"{BAD}{path.name}")
    disk.remove_tree(aside)
    disk.rename(path, aside)
