"""An MCP server for tests, on the official library: tools that a test can watch and break.

Usage: mcp_server.py FOLDER [--many N] [--http | --login ISSUER]. FOLDER gets a file for everything that
happens. With --http, it serves on loopback until stdin ends, requires `x-test-key: open`, and prints its address.
With --login, it instead requires a token from that issuer for its own address, checked by the library; while FOLDER
contains a file `refuse`, it refuses the next token and removes the file.
"""

import asyncio
import json
import os
import pathlib
import socket
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

FOLDER = pathlib.Path(sys.argv[1])


def note(name):
    with open(FOLDER / name, "a") as file:
        file.write(f"{os.getpid()}\n")


class WatchedServer(MCPServer):
    async def list_tools(self):
        note("listed")
        return await super().list_tools()


class IssuedTokens:
    """Asks the issuer about every token."""

    def __init__(self, issuer):
        # Imported here, because a server without logins must start fast.
        from mcp.server.auth.provider import AccessToken

        self.issuer, self.token_type = issuer, AccessToken

    async def verify_token(self, token):
        if (FOLDER / "refuse").exists():
            (FOLDER / "refuse").unlink()
            note("token-refused")
            return None
        about = await asyncio.to_thread(self.ask, token)
        if not about:
            note("token-unknown")
            return None
        note("token-accepted")
        return self.token_type(token=token, client_id=about["client_id"], scopes=about["scope"].split(),
                               resource=about.get("resource"), subject=about["sub"])

    def ask(self, token):
        import urllib.request

        with urllib.request.urlopen(f"{self.issuer}/_test/token/{token}") as answer:
            return json.load(answer)


def listen():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    host, port = listener.getsockname()
    return listener, f"http://{host}:{port}"


def login_settings():
    if "--login" not in sys.argv:
        return {}
    from mcp.server.auth.settings import AuthSettings

    issuer = sys.argv[sys.argv.index("--login") + 1]
    auth = AuthSettings(issuer_url=issuer, resource_server_url=f"{ADDRESS}/mcp",
                        required_scopes=["tools"], validate_token_resource=True)
    return {"auth": auth, "token_verifier": IssuedTokens(issuer)}


SERVES = "--http" in sys.argv or "--login" in sys.argv
LISTENER, ADDRESS = listen() if SERVES else (None, None)
server = WatchedServer("watched", **login_settings())


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
        wants_key = scope["type"] == "http" and "--http" in sys.argv
        if wants_key and (b"x-test-key", b"open") not in scope["headers"]:
            note("refused")
            await send({"type": "http.response.start", "status": 401,
                        "headers": [(b"www-authenticate", b"Bearer")]})
            await send({"type": "http.response.body", "body": b"no key"})
            return
        if scope["type"] == "http":
            note(f"http-{scope['method']}")
        await app(scope, receive, send)

    print(ADDRESS, flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    uvicorn.Server(uvicorn.Config(guarded, log_level="error")).run(sockets=[LISTENER])


note("started")
if "--many" in sys.argv:
    add_many(int(sys.argv[sys.argv.index("--many") + 1]))
if SERVES:
    serve_http()
else:
    server.run()
