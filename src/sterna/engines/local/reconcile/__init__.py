"""What is to be done about one job, now: facts about its processes in, changed rows and effects out.

Carrying effects out is `loop/`.
"""
