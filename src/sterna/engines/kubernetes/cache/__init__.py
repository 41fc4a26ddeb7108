"""What watches have brought: one store for each kind of object, kept fresh by reflectors.

What the objects mean is worked out in `world/`.
"""
