"""The small generated traces that come with the package, so that there is something to simulate at once."""

from pathlib import Path

import sterna


def shipped_traces() -> dict[str, Path]:
    """Files by name."""
    directory = Path(sterna.__file__).parent / "data"
    return {path.stem: path for path in sorted(directory.glob("*.csv"))}


def trace_path(words: str) -> str:
    """A file as it was typed, or a shipped trace by its name: `poisson-120`."""
    shipped = shipped_traces().get(words)
    return words if shipped is None or Path(words).exists() else str(shipped)
