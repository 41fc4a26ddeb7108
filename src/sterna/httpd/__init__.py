"""HTTP/1.1 by aiohttp, with limits: a server for tables of handlers, and a client for one request.

Knows requests, replies and limits; what is asked and answered is its user's. `HttpServer` serves a handler for each
(method, path); one request, however wrong, never ends it. `call` sends one request.
"""

from sterna.connections import Limits, limits_from
from sterna.httpd.client import CallFailed, call
from sterna.httpd.http_messages import Handler, Reply, Request, json_reply, problem
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
    "limits_from",
    "problem",
]
