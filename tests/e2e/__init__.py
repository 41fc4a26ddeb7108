"""Whole programs: the engine as users start it, training as users write it."""
