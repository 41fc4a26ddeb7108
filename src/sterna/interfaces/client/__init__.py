"""Asking a running engine, from Python and from the command line.

    from sterna.interfaces.client import Client

    client = Client()                                  # the engine of STERNA_HOME
    [job] = client.submit(open("job.yaml").read())
    client.wait(job["id"], until="succeeded", timeout_s=600)
    print(client.job(job["id"])["progress"])

Synchronous, standard library only. Errors are those of `sterna.model.errors`, and
`TimeoutError` where a wait was in vain.
"""

from sterna.interfaces.client.client import Client

__all__ = ["Client"]
