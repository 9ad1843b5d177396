"""An MCP server for tests, on the official library: tools that a test can watch and break.

Usage: mcp_server.py FOLDER [--many N] [--http]. FOLDER gets a file for everything that happens.
With --http it serves on loopback until stdin ends, wants `x-test-key: open`, and prints its address.
"""

import asyncio
import os
import pathlib
import socket
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

FOLDER = pathlib.Path(sys.argv[1])
server = MCPServer("watched")


def note(name):
    with open(FOLDER / name, "a") as file:
        file.write(f"{os.getpid()}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def meet(name: str, other: str) -> str:
    """Waits until the call with the other name runs, too."""
    note(f"met-{name}")
    for _ in range(3000):
        if (FOLDER / f"met-{other}").exists():
            return f"{name} met {other}"
        await asyncio.sleep(0.01)
    return f"{name} waited in vain"


@server.tool()
async def alone(name: str) -> str:
    """Says whether another call of it runs at the same time."""
    lock = FOLDER / "alone.lock"
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return f"{name} was not alone"
    await asyncio.sleep(0.05)
    lock.unlink()
    return f"{name} was alone"


@server.tool()
async def wait() -> str:
    """Waits until it is cancelled."""
    note("waiting")
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        note("cancelled")
        raise
    return "nobody cancelled it"


@server.tool()
async def die() -> str:
    """Ends the server at once."""
    note("died")
    os._exit(3)


@server.tool()
async def grow(context: Context) -> str:
    """Adds a tool to the server."""
    server.add_tool(lambda: "new", name="grown")
    await context.session.send_tool_list_changed()
    return "it has grown"


@server.tool()
async def repeat(text: str, times: int) -> str:
    """Repeats a text."""
    return text * times


@server.tool()
async def leave() -> str:
    """Leaves a process in a session of its own, which holds the output open."""
    child = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    return f"left {child.pid}"


def add_many(count):
    for number in range(count):
        def answer(text: str = "") -> str:
            return f"a number says {text}"

        server.add_tool(
            answer,
            name=f"number_{number}",
            description=f"Says something as number {number}.",
        )


def serve_http():
    import threading

    import uvicorn

    app = server.streamable_http_app()

    async def guarded(scope, receive, send):
        if scope["type"] == "http" and (b"x-test-key", b"open") not in scope["headers"]:
            note("refused")
            await send({"type": "http.response.start", "status": 401,
                        "headers": [(b"www-authenticate", b"Bearer")]})
            await send({"type": "http.response.body", "body": b"no key"})
            return
        if scope["type"] == "http":
            note(f"http-{scope['method']}")
        await app(scope, receive, send)

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    host, port = listener.getsockname()
    print(f"http://{host}:{port}", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    uvicorn.Server(uvicorn.Config(guarded, log_level="error")).run(sockets=[listener])


note("started")
if "--many" in sys.argv:
    add_many(int(sys.argv[sys.argv.index("--many") + 1]))
if "--http" in sys.argv:
    serve_http()
else:
    server.run()
