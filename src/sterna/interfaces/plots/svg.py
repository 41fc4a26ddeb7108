"""SVG elements as text, and the style sheet all charts share: colours that survive colour blindness and a dark page.

Colours are classes, never attributes, so that the same picture follows the reader's light or dark preference.
"""

from collections.abc import Iterable
from html import escape

# Okabe and Ito's palette, yellow late because thin yellow lines are hard to see on white; the eighth is the ink itself.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a800")
COLOURS = len(PALETTE) + 1
_DASHES = ("", "5 3", "1.5 2.5")  # series beyond the palette repeat its colours with another stroke

FONT_PX = 12
_CHAR_PX = 6.6  # generous mean width of a character at FONT_PX: labels must not be clipped in any common sans-serif


def number(value: float) -> str:
    """A coordinate, to a hundredth of a pixel and without trailing zeros: files stay small and stable."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def tag(name: str, *children: str, **attributes: object) -> str:
    """One element. Attribute `text_anchor` becomes `text-anchor`, and `class_` becomes `class`."""
    parts = [name]
    for key, value in attributes.items():
        shown = number(value) if isinstance(value, (int, float)) else escape(str(value), quote=True)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{shown}"')
    opening = " ".join(parts)
    return f"<{opening}>{''.join(children)}</{name}>" if children else f"<{opening}/>"


def text(x: float, y: float, content: str, **attributes: object) -> str:
    return tag("text", escape(content), x=x, y=y, **attributes)


def polyline(points: Iterable[tuple[float, float]], **attributes: object) -> str:
    path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return tag("polyline", points=path, **attributes)


def text_width(content: str) -> float:
    """About how many pixels a label takes; only used to leave enough room."""
    return len(content) * _CHAR_PX


def series(index: int) -> dict[str, str]:
    """Class and dash of the n-th line of a chart."""
    dash = _DASHES[index // COLOURS % len(_DASHES)]
    look = {"class_": f"line s{index % COLOURS}"}
    return look | {"stroke_dasharray": dash} if dash else look


def document(*children: str, width: float, height: float, title: str, description: str) -> str:
    """A whole picture, with a name and a description for users who cannot see it."""
    return tag(
        "svg",
        tag("title", escape(title)),
        tag("desc", escape(description)),
        tag("style", STYLE),
        tag("rect", class_="paper", x=0, y=0, width=width, height=height),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        class_="chart",
    )


def _style() -> str:
    colours = "".join(f".chart .s{n}{{stroke:{c}}}.chart .f{n}{{fill:{c}}}" for n, c in enumerate(PALETTE))
    last = len(PALETTE)

    def inks(ink: str, soft: str, grid: str, paper: str) -> str:
        return (
            f".chart text{{fill:{ink}}}.chart .soft{{fill:{soft}}}.chart .grid{{stroke:{grid}}}"
            f".chart .axis,.chart .wait{{stroke:{soft}}}.chart .paper{{fill:{paper}}}.chart .halo{{stroke:{paper}}}"
            f".chart .s{last}{{stroke:{ink}}}.chart .f{last}{{fill:{ink}}}"
        )

    return (
        f".chart text{{font:{FONT_PX}px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}}"
        ".chart .head{font-size:15px;font-weight:600}.chart .small{font-size:11px}"
        ".chart .line{fill:none;stroke-width:1.8;stroke-linejoin:round}"
        ".chart .grid,.chart .axis,.chart .wait{stroke-width:1;shape-rendering:crispEdges}"
        ".chart .wait{stroke-opacity:.55}.chart .halo{stroke-width:4;paint-order:stroke;stroke-linejoin:round}"
        + colours
        + inks("#1f2328", "#59636e", "#d8dee4", "#ffffff")
        + "@media(prefers-color-scheme:dark){"
        + inks("#e6edf3", "#9198a1", "#30363d", "#0d1117")
        + ".chart .s0{stroke:#3a9fe0}.chart .f0{fill:#3a9fe0}"  # the palette's blue is too dark on black
        + "}"
    )


STYLE = _style()
