"""The official ACP library for Python as an editor: it starts `angelia acp` and does what editors do.

The model is scripted by the prompt itself, as `directive.rs` of the testkit says. `client.mjs` has
the same scenarios.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from acp import (
    PROTOCOL_VERSION,
    RequestError,
    embedded_text_resource,
    image_block,
    resource_block,
    spawn_agent_process,
    text_block,
)
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    RequestPermissionResponse,
)

ANGELIA = os.environ["ANGELIA"]
PNG = os.environ["ANGELIA_PNG"]
WORK = Path.cwd()

LONG = "WORDS:2000:20"
"""An answer of forty seconds."""


def tool(name, input, then):
    """A prompt: the model calls this tool, and afterwards says `then`."""
    return f'TOOL:{json.dumps({"name": name, "input": input})}:END ECHO:{then}'


class Editor:
    """What the agent can ask of an editor."""

    def __init__(self):
        self.heard = []
        self.asked = []
        self.choose = None
        self.begun = asyncio.Event()

    async def session_update(self, session_id, update, **_):
        self.heard.append(update)
        if update.session_update == "agent_message_chunk":
            self.begun.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append(tool_call)
        for option in options:
            if option.kind == self.choose:
                outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
                return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def create_elicitation(self, message, mode, **_):
        self.asked.append(mode)
        return AcceptElicitationResponse(action="accept", content={"Colour": "Blue"})

    def all(self, kind):
        return [update for update in self.heard if update.session_update == kind]

    def said(self, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.all(kind))


@asynccontextmanager
async def editor(can=None):
    """One agent process with an editor around it."""
    client = Editor()
    environment = dict(os.environ)
    spawning = spawn_agent_process(
        client, ANGELIA, "acp", env=environment, use_unstable_protocol=True
    )
    async with spawning as (agent, _):
        hello = await agent.initialize(
            protocol_version=PROTOCOL_VERSION, client_capabilities=can
        )
        assert hello.agent_info.name == "angelia", hello
        yield agent, client


async def opened(agent):
    return (await agent.new_session(cwd=str(WORK), mcp_servers=[])).session_id


async def text():
    async with editor() as (agent, client):
        session = await opened(agent)
        answer = await agent.prompt(session_id=session, prompt=[text_block("WORDS:20")])
        assert answer.stop_reason == "end_turn", answer
        assert len(client.all("agent_message_chunk")) > 5
        assert len(client.said().split()) == 20


async def permission():
    path = WORK / "python.txt"
    write = [text_block(tool("Write", {"file_path": str(path), "content": "made\n"}, "then"))]
    async with editor() as (agent, client):
        session = await opened(agent)
        client.choose = "reject_once"
        await agent.prompt(session_id=session, prompt=write)
        assert not path.exists()
        assert client.all("tool_call_update")[-1].status == "failed"
        client.heard.clear()
        client.choose = "allow_once"
        await agent.prompt(session_id=session, prompt=write)
        assert path.read_text() == "made\n"
        (call,) = client.all("tool_call")
        assert call.kind == "edit" and call.locations[0].path == str(path), call
        (diff,) = call.content
        assert (diff.path, diff.old_text, diff.new_text) == (str(path), None, "made\n"), diff
        assert client.asked[-1].tool_call_id == call.tool_call_id
        assert client.all("tool_call_update")[-1].status == "completed"


async def modes():
    path = WORK / "unattended.txt"
    write = tool("Write", {"file_path": str(path), "content": "made\n"}, "then")
    async with editor() as (agent, client):
        session = await opened(agent)
        await agent.set_session_mode(session_id=session, mode_id="unattended")
        await agent.prompt(session_id=session, prompt=[text_block(write)])
        assert path.read_text() == "made\n" and not client.asked
        options = await agent.set_config_option(
            config_id="model", session_id=session, value="haiku"
        )
        assert [one.current_value for one in options.config_options][-1] == "haiku"


async def cancel():
    async with editor() as (agent, client):
        session = await opened(agent)
        answer = asyncio.create_task(
            agent.prompt(session_id=session, prompt=[text_block(LONG)])
        )
        await client.begun.wait()
        await agent.cancel(session_id=session)
        assert (await answer).stop_reason == "cancelled"


async def load():
    async with editor() as (agent, _):
        session = await opened(agent)
        await agent.prompt(session_id=session, prompt=[text_block("word ECHO:first answer")])
    async with editor() as (agent, client):
        listed = await agent.list_sessions(cwd=str(WORK))
        assert session in [one.session_id for one in listed.sessions]
        await agent.load_session(cwd=str(WORK), session_id=session, mcp_servers=[])
        assert client.said("user_message_chunk") == "word ECHO:first answer"
        assert client.said() == "first answer"
        client.heard.clear()
        await agent.prompt(session_id=session, prompt=[text_block("ECHO:second answer")])
        assert client.said() == "second answer"


async def usage():
    path = WORK / "read-by-python.txt"
    path.write_text("text\n")
    read = tool("Read", {"file_path": str(path)}, "read")
    async with editor() as (agent, client):
        session = await opened(agent)
        used, whole, cost = [], None, 0
        for words in ["ECHO:hello", read, "ECHO:hello"]:
            answer = await agent.prompt(session_id=session, prompt=[text_block(words)])
            one = answer.usage
            parts = [
                one.input_tokens,
                one.output_tokens,
                one.cached_read_tokens,
                one.cached_write_tokens,
            ]
            assert one.total_tokens == sum(parts) and one.input_tokens > 0, one
            assert answer.field_meta["angelia"]["costUsd"] > 0, answer
            used.append(one.output_tokens)
            # The context holds what one request read and wrote.
            meter = client.all("usage_update")[-1]
            whole = whole or one.total_tokens
            assert meter.used == whole < meter.size, meter
            assert meter.cost.amount > cost and meter.cost.currency == "USD", meter
            cost = meter.cost.amount
        # The second one asked the model twice; each answer has its own count.
        assert used[0] == used[2] < used[1], used


async def fork():
    async with editor() as (agent, client):
        session = await opened(agent)
        words = "before the fork ECHO:first answer"
        await agent.prompt(session_id=session, prompt=[text_block(words)])
        client.heard.clear()
        forked = await agent.fork_session(session_id=session, cwd=str(WORK), mcp_servers=[])
        assert forked.session_id != session
        assert forked.modes.current_mode_id == "ask", forked
        for at, words in [
            (forked.session_id, "on the fork ECHO:second answer"),
            (session, "beside the fork ECHO:third answer"),
        ]:
            await agent.prompt(session_id=at, prompt=[text_block(words)])
        assert client.said() == "second answerthird answer"


async def question():
    options = [{"label": label, "description": f"It is {label}"} for label in ["Red", "Blue"]]
    asked = {
        "question": "Which one?",
        "header": "Colour",
        "options": options,
        "multiSelect": False,
    }
    ask = tool("AskUserQuestion", {"questions": [asked]}, "chosen")
    forms = ElicitationCapabilities(form=ElicitationFormCapabilities())
    async with editor(ClientCapabilities(elicitation=forms)) as (agent, client):
        session = await opened(agent)
        await agent.prompt(session_id=session, prompt=[text_block(ask)])
        (form,) = client.asked
        assert list(form.requested_schema.properties) == ["Colour"], form
        done = client.all("tool_call_update")[-1]
        assert done.status == "completed" and "Blue" in done.raw_output, done


async def login():
    async with editor() as (agent, _):
        await agent.authenticate(method_id="agent-login")
        try:
            await agent.authenticate(method_id="oauth")
        except RequestError as error:
            assert error.code == -32602 and "doctor" in str(error), error
        else:
            raise AssertionError("an unknown way to log in was accepted")


async def picture():
    async with editor() as (agent, _):
        session = await opened(agent)
        notes = resource_block(embedded_text_resource("file:///notes.txt", "the notes"))
        prompt = [notes, image_block(PNG, "image/png"), text_block("ECHO:seen")]
        answer = await agent.prompt(session_id=session, prompt=prompt)
        assert answer.stop_reason == "end_turn", answer


async def failure():
    async with editor() as (agent, _):
        session = await opened(agent)
        try:
            await agent.prompt(session_id=session, prompt=[])
        except RequestError as error:
            assert error.code == -32602, error
        else:
            raise AssertionError("an empty prompt was accepted")


SCENARIOS = [
    text,
    permission,
    modes,
    cancel,
    load,
    usage,
    fork,
    question,
    login,
    picture,
    failure,
]

chosen = sys.argv[1:]
for scenario in SCENARIOS:
    if not chosen or scenario.__name__ in chosen:
        asyncio.run(scenario())
        print(f"{scenario.__name__} ok", flush=True)
