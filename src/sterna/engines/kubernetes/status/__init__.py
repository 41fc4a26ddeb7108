"""What a job's object says of it: its standing and status as they are written and read, conditions, events.

Nothing here decides what becomes of the job.
"""
