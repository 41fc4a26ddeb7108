"""Experiments that others published, run again by name: what their arms are, and how arms are set side by side."""
