"""Room that training leaves to serving pods that have no node yet. Which node takes a pod is not decided here."""

from collections.abc import Iterable

from sterna.model.nodes import Cluster, Guest


def room_for_serving(cluster: Cluster, waiting: Iterable[Guest]) -> int:
    """What the policy leaves alone, in the cluster's currency.

    A pod that no node could hold even without training gets no room: keeping some would only idle it.
    """
    return sum(pod.request[cluster.currency] for pod in waiting if could_hold(cluster, pod))


def could_hold(cluster: Cluster, pod: Guest) -> bool:
    """Is there a node that could take this pod if no job were there? Labels and taints are not looked at."""
    rooms = (node.free_of_guests for node in cluster.nodes if node.schedulable)
    return any(all(have >= take for have, take in zip(room[:3], pod.request[:3], strict=True)) for room in rooms)
