"""What the processes of a node use: CPU, memory and GPUs, read from the kernel and from the driver.

Which processes belong to which worker is `watched.py`'s, and who is told is the monitor's.
"""
