"""Trace files: the formats people publish, and our own. What is read here are rows; how they train is not asked.

`reading.py` reads any of them, `formats.py` lists them, `clusters.py` makes the nodes to run them on.
"""
