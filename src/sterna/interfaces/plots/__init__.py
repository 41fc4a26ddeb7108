"""Pictures of simulations as SVG text, drawn by hand: no plotting library, no external asset, nothing but strings.

`svg` writes elements, `scales` turns numbers into positions and ticks, `chart_frame` draws axes and legends; each chart
is one file. Charts take results and give text: what is read, written or shown is the caller's business.
"""
