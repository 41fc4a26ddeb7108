"""A storm over a cluster: many jobs and nodes, for a while everything happens to them at random, and what must hold is
read from outside.

The API server, its controllers and the operator are real, and the operator is a process that is killed. Nodes are
played (`tests/cluster/fake_nodes.py`). `errands` are the jobs, `disturbances` is what happens to them, `observer` and
`audit_trail` are those that look on, `cluster_storm` is the order of it all.
"""
