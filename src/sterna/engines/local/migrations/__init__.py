"""Moves that were asked for, and the door through which container-migration's users ask."""
