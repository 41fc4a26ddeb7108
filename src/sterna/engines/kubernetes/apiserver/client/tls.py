"""The TLS side of a configuration: which authorities are trusted, and which certificate the client shows."""

import ssl
import tempfile

from sterna.engines.kubernetes.apiserver.client.connection_settings import Certificate, Configuration, Pem
from sterna.model.errors import InvalidRequest


def context_of(configuration: Configuration, certificate: Certificate | None) -> ssl.SSLContext:
    """Reads the files anew: a context made after they changed shows what they hold now."""
    context = _trusting(configuration)
    # Python 3.13 turned this on by default; certificates of many a cluster's own authority do not pass it.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _show(context, certificate, source=configuration.source)
    return context


def _trusting(configuration: Configuration) -> ssl.SSLContext:
    ca = configuration.ca
    try:
        if ca is None:
            return ssl.create_default_context()
        return ssl.create_default_context(cadata=ca.read().decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, OSError) as error:
        field = f"{configuration.source}: certificate-authority"
        expected = f"certificates in PEM ({error})"
        raise InvalidRequest(field=field, value=_shown(ca), expected=expected) from None


def _show(context: ssl.SSLContext, certificate: Certificate, *, source: str) -> None:
    try:
        # OpenSSL reads a chain from a file only. This one is ours alone and gone at once.
        with tempfile.NamedTemporaryFile(prefix="sterna-") as both:
            both.write(certificate.certificate.read().rstrip() + b"\n" + certificate.key.read())
            both.flush()
            context.load_cert_chain(both.name, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        value = f"{_shown(certificate.certificate)} and {_shown(certificate.key)}"
        expected = f"a certificate and its key in PEM, the key without a password ({error})"
        raise InvalidRequest(field=f"{source}: client-certificate", value=value, expected=expected) from None


def _shown(pem: Pem | None) -> str:
    return str(pem.path) if pem is not None and pem.path is not None else "(data)"


def _no_password() -> str:
    raise ValueError("the key has a password")  # else OpenSSL asks for it at the terminal
