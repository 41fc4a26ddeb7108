"""The nouns, one file a noun. Values only: no I/O, clock, randomness or logging, and nothing here chooses anything.

Glossary, one word per thing everywhere from the custom resource to the chart label:

job       what an owner submitted; `JobSpec` is what was asked for, `Job` how it stands now
worker    one process of a job in its place; elastic ones come and go, fixed roles (ps, chief, ...) stay
node      a machine with allocatable resources; `Cluster` is all of them
pool      the nodes of one accelerator type; jobs of one pool never see another's nodes
currency  what a pool is short of and policies count in: milli-GPU, or milli-CPU where there is no GPU
guest     a pod that is not ours; serving guests go before training
curve     how fast a job trains with how many workers
snapshot  everything a decision may use, the clock included
grant     how many workers one job should hold, and why
target    all grants: what a policy answers
layout    where each worker should be: what placement answers
plan      the steps that turn what is into what should be; `Decision` is target, layout and plan together
step      actions that may happen at the same time
action    let go (`Shrink`) or take up (`Grow`)
outcome   what an engine says came of an action
cycle     observe, decide, apply: once
"""
