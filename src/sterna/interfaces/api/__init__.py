"""A small door on loopback: the scheduler of one machine over HTTP. Thin on purpose, it decides nothing.

Nothing is imported here: the client reads `engine_home.py`, and must not pay for a web framework.
"""
