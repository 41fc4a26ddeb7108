"""Made-up handwriting: the ten digits in seven strokes each, shifted, smeared and noisy. The same for everybody.

Stands in for MNIST where nothing can be downloaded: 12 x 12 grey pixels, ten classes, hard enough that a loss curve
falls for a while. Needs NumPy only.
"""

import numpy as np

SIDE = 12
_STROKES = {  # of a seven-segment display, as (rows, columns) on an 8 x 6 grid
    "top": (slice(0, 1), slice(1, 5)),
    "middle": (slice(4, 5), slice(1, 5)),
    "bottom": (slice(7, 8), slice(1, 5)),
    "upper left": (slice(1, 4), slice(0, 1)),
    "upper right": (slice(1, 4), slice(5, 6)),
    "lower left": (slice(5, 7), slice(0, 1)),
    "lower right": (slice(5, 7), slice(5, 6)),
}
_LEFT_OUT = (  # what each digit does without
    ("middle",),
    ("top", "middle", "bottom", "upper left", "lower left"),
    ("upper left", "lower right"),
    ("upper left", "lower left"),
    ("top", "bottom", "lower left"),
    ("upper right", "lower left"),
    ("upper right",),
    ("middle", "bottom", "upper left", "lower left"),
    (),
    ("lower left",),
)


def digits(count, *, seed=0):
    """`count` pictures as rows of SIDE * SIDE floats from 0 to about 1, and their labels."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, 10, count)
    pictures = np.zeros((count, SIDE, SIDE), dtype=np.float32)
    shifts = chance.integers(0, (SIDE - 8 + 1, SIDE - 6 + 1), (count, 2))
    glyphs = [_glyph(digit) for digit in range(10)]
    for picture, label, (down, right) in zip(pictures, labels, shifts, strict=True):
        picture[down : down + 8, right : right + 6] = glyphs[label]
    pictures *= chance.uniform(0.5, 1.0, (count, 1, 1)).astype(np.float32)
    pictures += chance.normal(0.0, 0.25, pictures.shape).astype(np.float32)
    return pictures.reshape(count, SIDE * SIDE), labels


def _glyph(digit):
    glyph = np.zeros((8, 6), dtype=np.float32)
    for name, where in _STROKES.items():
        if name not in _LEFT_OUT[digit]:
            glyph[where] = 1.0
    return glyph
