"""Moves: Migration objects and their index, moves that were asked for, and the door through which they are asked.

Moves that placement makes of itself are in the history of their job.
"""
