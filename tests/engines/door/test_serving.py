"""The door on a real port."""

import asyncio
import json
from pathlib import Path

import pytest

from sterna.engines.door import Door, secrets_in, serve_door
from sterna.httpd import call
from sterna.model.errors import InvalidRequest
from tests.engines.door.rooms import KEY, SECRET, Rooms, door_to


async def met(household: Rooms) -> list[tuple[int, bytes]]:
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_door(door_to(household), host="127.0.0.1", port=0, told=bound.set_result))
    try:
        url = f"http://127.0.0.1:{await bound}"
        wish = json.dumps({"node": "n1", "pod": "job1-worker-0"}).encode()
        key = {"Authorization": KEY}
        answers = [
            await call("POST", f"{url}/migrate", body=wish),
            await call("POST", f"{url}/migrate", body=b"{", headers=key),
            await call("POST", f"{url}/migrate", body=wish, headers=key),
            await call("GET", f"{url}/cluster-info", headers=key),
            await call("POST", f"{url}/reports", body=b" " * (2 << 20), headers=key),
        ]
        return [(answer.status, answer.body) for answer in answers]
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def test_requests_come_in_over_http_and_bad_ones_leave_it_open():
    household = Rooms()
    answers = asyncio.run(met(household))
    assert [status for status, _ in answers] == [401, 400, 200, 200, 413]
    assert answers[2][1] == b"Ok"
    assert sorted(json.loads(answers[3][1])) == ["n1", "n2", "n3"]
    assert len(household.asked) == 1


def test_s3_while_a_secret_is_being_replaced_the_old_and_the_new_one_open_the_door(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(f"the-secret-that-comes-next\n{SECRET}\n")
    door = Door(Rooms(), secrets_in(file).lines)
    for key, status in ((KEY, 200), ("Bearer the-secret-that-comes-next", 200), ("Bearer the-secret-of-before", 401)):
        answer = asyncio.run(door.answer("GET", "/cluster-info", authorization=key))
        assert answer.status == status


@pytest.mark.parametrize("content", [None, "", "short", "\n\n"])
def test_s3_there_is_no_door_without_a_secret(tmp_path: Path, content: str | None):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidRequest, match="--token-file"):
        secrets_in(file)
