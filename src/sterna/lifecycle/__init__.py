"""What becomes of one job: facts about its workers in, verdicts and its next state out. Pure, the same in every engine.

Whether a worker is a process, a pod or a line in a heap is the engine's matter: it observes, asks here, keeps the state
that it gets back where it keeps state, and carries out what follows. Nothing here sizes, places or plans.

There is one file a rule: what becomes of a job is found by its everyday word, such as retry, losses or changes.
"""
