"""A small HTTP/1.1 server and client for processes that must stay small: asyncio and httptools, nothing else.

Knows requests, replies and limits; what is asked and answered is its user's. `HttpServer` serves a table of handlers
per (method, path); one request, however wrong, never ends it. `call` sends one request.
"""

from sterna.httpd.client import CallFailed, call
from sterna.httpd.messages import Handler, Limits, Reply, Request, json_reply, problem
from sterna.httpd.server import HttpServer

__all__ = [
    "CallFailed",
    "Handler",
    "HttpServer",
    "Limits",
    "Reply",
    "Request",
    "call",
    "json_reply",
    "problem",
]
