"""The names of things. Distinct types, so that a node's name is never passed where a job's is meant."""

from typing import NewType

JobId = NewType("JobId", str)  # namespace/name where there are namespaces; unique in one snapshot
NodeId = NewType("NodeId", str)
DeviceId = NewType("DeviceId", str)  # one GPU of a node: its UUID, or its number where it has none
