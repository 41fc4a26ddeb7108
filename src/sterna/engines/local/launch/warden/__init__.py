"""The warden: parent of every training process of one `STERNA_HOME`, and the engine's way to talk to it.

A process of its own session, single-threaded and of the standard library alone, that outlives the engine: it starts
process groups, pipes their output to rotated files, keeps TERM - grace - KILL deadlines, records every exit on disk
before telling it, holds ports, and takes everything with it when it dies. The engine uses `client`, with `values`:

    client = await connect_or_start(home, on_exit=..., on_lost=...)
    state = await client.start(Launch(id="mnist-worker-0-abcde", argv=..., env=..., cwd=..., log_path=...))
    await client.stop(state.id, grace_s=30)

What the warden does with one process is `workers/`. Nothing is imported here: the warden runs inside this package and
needs no asyncio.
"""
