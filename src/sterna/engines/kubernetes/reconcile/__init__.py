"""What is to be done about one job, now: facts about its pods in, its next standing and effects out. Pure.

Carrying the effects out is `loop/`; how a standing is written into a status is `status/`.
"""
