"""How many modules a job walks through, measured: from `submit` to a launched process, from an object to a created pod.

`recorder` runs a process and notes how control passes between modules, `local` and `cluster` play one job in each
engine, `account` turns notes into the walk and its numbers, `__main__` prints them. Nothing here measures time.
"""
