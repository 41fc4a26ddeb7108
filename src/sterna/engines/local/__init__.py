"""One machine as a cluster: training jobs are process groups, state is an SQLite file, the warden is their parent.

Importing this package imports nothing else: the warden lives below it and has to stay small.
"""
