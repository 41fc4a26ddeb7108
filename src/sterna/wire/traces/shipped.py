"""The small generated traces that come with the package, so that there is something to simulate at once."""

from pathlib import Path

import sterna


def shipped_traces() -> dict[str, Path]:
    """Files by name."""
    directory = Path(sterna.__file__).parent / "data"
    return {path.stem: path for path in sorted(directory.glob("*.csv"))}
