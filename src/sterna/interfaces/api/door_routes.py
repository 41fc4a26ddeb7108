"""The scheduler's door (`engines/door/`) at its usual paths, beside the API and behind the same token."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sterna.engines.door.door import Door
from sterna.interfaces.api.doorkeeper import problem_response
from sterna.interfaces.api.request_values import Refused, content_of

_PATHS = ("/migrate", "/cluster-info", "/reports")


def door_routes(door: Door) -> list[Route]:
    """Every method arrives: which one a path is asked for by, the door says."""

    async def answer(request: Request) -> Response:
        try:
            body = await content_of(request)
        except Refused as error:
            return problem_response(error.problem)
        authorization = request.headers.get("authorization")
        said = await door.answer(request.method, request.url.path, authorization=authorization, body=body)
        return Response(said.body, said.status, headers=dict(said.headers), media_type=said.media_type)

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    return [Route(path, answer, methods=methods) for path in _PATHS]
