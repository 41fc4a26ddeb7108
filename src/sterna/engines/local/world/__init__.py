"""Nodes of this machine and jobs on them, as the next decision sees them."""
