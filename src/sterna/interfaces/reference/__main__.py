"""`python -m sterna.interfaces.reference docs` rewrites the generated pages.

`... --fill PAGE BLOCK` puts standard input into a marked block of one page, for text that another command made.
"""

import sys
from pathlib import Path

from sterna.interfaces.reference.blocks import filled
from sterna.interfaces.reference.pages import generated


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--fill", page, block]:
            path = Path(page)
            _write(path, filled(path.read_text(encoding="utf-8"), block, sys.stdin.read()))
        case [docs]:
            for path, content in generated(Path(docs)).items():
                _write(path, content)
        case _:
            sys.exit("usage: python -m sterna.interfaces.reference DOCS | --fill PAGE BLOCK")


def _write(path: Path, content: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        sys.stderr.write(f"wrote {path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
