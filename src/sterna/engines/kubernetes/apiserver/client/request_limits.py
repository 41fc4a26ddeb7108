"""How much the client asks at once, and how long it waits: one value, with defaults for a cluster of 10,000 pods."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    in_flight: int = 32  # requests at once; watches, logs and the lease are not counted
    waiting_events: int = 256  # with more requests waiting than this, events are dropped
    request_s: float = 30.0  # from sending a request to the end of its answer
    connect_s: float = 10.0
    attempts: int = 4  # of what is safe to repeat
    backoff_s: float = 0.25  # before the second attempt; doubled for each further one
    backoff_max_s: float = 5.0
    retry_after_max_s: float = 10.0  # of a Retry-After; a server may not send us to sleep for longer
    page: int = 500
    watch_s: float = 120.0  # the server ends a watch after that, so silence for much longer is a broken connection
    watch_slack_s: float = 15.0
    line_bytes_max: int = 2**24  # of a watch; objects may have 1.5 MB


DEFAULT = Limits()
