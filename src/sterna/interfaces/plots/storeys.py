"""The packages as storeys of a house: each may use what is below it."""

from collections.abc import Sequence

from sterna.interfaces.plots.chart_frame import TITLE_PX, heading
from sterna.interfaces.plots.svg import COLOURS, document, tag, text

_WIDTH = 420.0
_STOREY_PX = 34.0
_GAP_PX = 6.0
_SIDE_PX = 12.0


def storeys_plot(storeys: Sequence[Sequence[str]], *, title: str = "Storeys", width: float = _WIDTH) -> str:
    """From the top down. Packages of one storey stand side by side and do not know each other."""
    parts = []
    for level, packages in enumerate(storeys):
        y = TITLE_PX + 6 + level * (_STOREY_PX + _GAP_PX)
        room = (width - 2 * _SIDE_PX - _GAP_PX * (len(packages) - 1)) / len(packages)
        for place, name in enumerate(packages):
            x = _SIDE_PX + place * (room + _GAP_PX)
            look = {"x": x, "y": y, "width": room, "height": _STOREY_PX, "rx": 4}
            parts.append(tag("rect", class_=f"f{level % COLOURS}", opacity=0.18, **look))
            parts.append(tag("rect", class_=f"line s{level % COLOURS}", **look))
            parts.append(text(x + room / 2, y + _STOREY_PX / 2 + 4, name, text_anchor="middle"))
    named = "; ".join(" and ".join(packages) for packages in storeys)
    return document(
        heading(title),
        *parts,
        width=width,
        height=TITLE_PX + 6 + len(storeys) * (_STOREY_PX + _GAP_PX) + _SIDE_PX - _GAP_PX,
        title=title,
        description=f"Each storey imports only what is below it. From the top: {named}.",
    )
