"""Performance models: how the jobs of a trace really train. `catalogue.py` lists them all by name.

A model turns a row of a trace into a simulated job; what policies think of its speed is their own affair.
"""
