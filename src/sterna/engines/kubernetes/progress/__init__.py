"""How jobs train: reports taken in, what was learned from them, and where that is kept.

What policies make of it is theirs.
"""
