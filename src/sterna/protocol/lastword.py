"""A worker's last word: its status in a file that outlives its container, the termination message of Kubernetes.

The kubelet makes the file, binds it into the container and reads it when the container is gone, so it can only be
written in place: renaming another file over it is not possible. Its limit is 4096 bytes for a container, and less where
a pod has more than three of them, which is why half of that has to do.
"""

import os

from sterna.protocol.messages import Status

LAST_WORD_BYTES_MAX = 2048


def write_last_word(path: str | os.PathLike[str], status: Status) -> None:
    """Replace what the file says. Raises OSError.

    One write covers all that was there before, the rest with blanks, which JSON allows: a worker that is killed
    right after it has still left one whole message.
    """
    message = status.to_compact_json(bytes_max=LAST_WORD_BYTES_MAX).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(descriptor, message.ljust(os.fstat(descriptor).st_size), 0)
        os.ftruncate(descriptor, len(message))
    finally:
        os.close(descriptor)
