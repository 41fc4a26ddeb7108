"""The engine as a process: its home, its clock, how it is put together and how it ends.

What it does for jobs while it runs is `loop/`.
"""
