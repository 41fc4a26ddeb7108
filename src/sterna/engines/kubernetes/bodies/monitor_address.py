"""What pods are told of the monitor of their node, as the operator's configuration says."""

from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.reconcile.job_view import MonitorAt
from sterna.model.errors import InvalidRequest
from sterna.protocol.tokens import SECRET_BYTES_MIN, TokenFile


def monitor_at(config: OperatorConfig) -> MonitorAt | None:
    """None: pods are told of none. `InvalidRequest`: the token file holds no secret.

    Read once: pods that run keep the tokens they have, and a secret is replaced by keeping both in the file until the
    last of them is gone.
    """
    if config.monitor_port is None or config.token_file is None:
        return None
    secret = TokenFile(config.token_file).first()
    if secret is None or len(secret) < SECRET_BYTES_MIN:
        expected = f"a file with a secret of at least {SECRET_BYTES_MIN} characters"
        raise InvalidRequest(field="token file", value=str(config.token_file), expected=expected)
    return MonitorAt(config.monitor_port, secret)
