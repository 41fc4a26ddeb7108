"""Attacks against the real processes, and what must hold after each: it lives, it stayed small, it answers."""
