"""An action that the local engine applied has one line in the log, with the decision that event and journal name."""

import asyncio
import json
import logging
from pathlib import Path

from tests.engines.local.lab import config, fresh_home, running, swept, toy


def test_the_log_the_event_and_the_journal_name_one_decision(caplog):
    caplog.set_level(logging.INFO, logger="sterna")

    async def story(home: Path) -> None:
        async with running(config(home, nodes=1, gpus=1)) as engine:
            await engine.submit(toy("a", steps=5))
            await engine.until_phase("a", "Succeeded")
            events = await engine.scheduler.events(after=0, limit=100)
        (line,) = [vars(record) for record in caplog.records if record.getMessage() == "job started"]
        assert (line["job"], line["workers"], line["held"]) == ("default/a", 1, "done")
        assert line["took_ms"] >= 0
        (started,) = [event for event in events if event["reason"] == "Starting"]
        assert started["data"]["decision"] == line["decision"]
        (journal,) = (home / "journal").iterdir()
        entries = [json.loads(text) for text in journal.read_text().splitlines()]
        assert [entry["entry"] for entry in entries if entry.get("id") == line["decision"]] == ["decided", "happened"]

    async def whole() -> None:
        home = fresh_home()
        try:
            await story(home)
        finally:
            await swept(home)

    asyncio.run(whole())
