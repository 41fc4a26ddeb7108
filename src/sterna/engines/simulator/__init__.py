"""The engine whose world is a trace and whose clock is a number: the real loop, planner and journal on virtual time."""
