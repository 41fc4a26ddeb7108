"""The operator as a process: its options, its Lease, its probes, its clock and the rules it decides by.

What it does for jobs while it leads is `loop/`.
"""
