"""Slack's Bolt and its SDK against the fake server of Slack: whatever they can do there, the fake does right."""

import logging
import os
import sys
import threading
import urllib.request

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

URL = os.environ["SLACK_URL"]
BOT_TOKEN = os.environ["SLACK_BOT_TOKEN"]
APP_TOKEN = os.environ["SLACK_APP_TOKEN"]

logging.basicConfig(level=logging.WARNING)
client = WebClient(token=BOT_TOKEN, base_url=f"{URL}/api/")
app = App(client=client)
handler = SocketModeHandler(app, APP_TOKEN)

seen = []
done = threading.Event()


def expect(error, call):
    try:
        call()
    except SlackApiError as refusal:
        assert refusal.response["error"] == error, refusal
        return refusal.response
    raise AssertionError(f"accepted, wanted: {error}")


def rich(text):
    elements = [{"type": "text", "text": text, "style": {"bold": True}}]
    section = {"type": "rich_text_section", "elements": elements}
    return {"type": "rich_text", "elements": [section]}


def button(action):
    label = {"type": "plain_text", "text": "Yes"}
    return {"type": "button", "action_id": action, "text": label, "value": "yes:1"}


@app.event("message")
def on_message(event, say):
    subtype = event.get("subtype")
    if subtype == "message_changed":
        seen.append(f"edited {event['message']['text']}")
        return
    if subtype == "message_deleted":
        seen.append("deleted")
        return
    if event["channel_type"] != "im":
        return
    if event.get("files"):
        file = event["files"][0]
        seen.append(file["name"])
        address = file["url_private_download"]
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {BOT_TOKEN}"})
        content = urllib.request.urlopen(request).read()
        assert b"sign in" in urllib.request.urlopen(address).read()
        client.files_upload_v2(channel=event["channel"], filename="back.txt", content=content)
        return
    seen.append(event["text"])
    blocks = [rich(f"got {event['text']}"), {"type": "actions", "elements": [button("choice-0-0")]}]
    say(text="got it", blocks=blocks)


@app.event("app_mention")
def on_mention(event):
    seen.append("mention")
    stream = client.chat_stream(
        channel=event["channel"], thread_ts=event["ts"], buffer_size=4,
        recipient_team_id=event["team"], recipient_user_id=event["user"],
    )
    stream.append(markdown_text="**bold** wo")
    task = {"type": "task_update", "id": "t", "title": "Bash ls", "status": "in_progress"}
    stream.append(chunks=[task])
    expect("streaming_state_conflict", lambda: client.chat_update(channel=event["channel"], ts=stream.ts, text="x"))
    stream.stop(markdown_text="rds")
    stale = dict(channel=event["channel"], ts=stream.ts)
    expect("message_not_in_streaming_state", lambda: client.chat_appendStream(**stale, markdown_text="more"))
    expect("message_not_in_streaming_state", lambda: client.chat_stopStream(**stale))
    nobody = dict(channel=event["channel"], thread_ts=event["ts"])
    expect("missing_recipient_team_id", lambda: client.chat_startStream(**nobody))


@app.action("choice-0-0")
def on_press(ack, body, respond):
    ack()
    assert body["user"]["id"] == "U7" and body["actions"][0]["value"] == "yes:1", body
    place = body["container"]
    client.chat_postEphemeral(channel=place["channel_id"], user="U7", text="noted")
    client.chat_update(channel=place["channel_id"], ts=place["message_ts"], text="decided", blocks=[rich("decided")])
    refusals(place["channel_id"], place["message_ts"])
    done.set()


@app.command("/stop")
def on_command(ack, command):
    ack()
    seen.append(f"command {command['command']}")


def refusals(channel, ts):
    post = lambda **fields: lambda: client.chat_postMessage(channel=channel, **fields)
    expect("invalid_blocks", post(text="x", blocks=[rich("")]))
    expect("invalid_blocks", post(text="x", blocks=[{"type": "actions", "elements": [button("a"), button("a")]}]))
    expect("msg_blocks_too_long", post(text="x", blocks=[rich("x" * 14000)]))
    expect("msg_too_long", post(text="x" * 40001))
    expect("no_text", post(text=""))
    expect("msg_too_long", lambda: client.chat_update(channel=channel, ts=ts, text="ä" * 2001))
    expect("message_not_found", lambda: client.chat_update(channel=channel, ts="1.1", text="x"))
    expect("is_archived", lambda: client.chat_postMessage(channel="C9", text="x"))
    limited = expect("ratelimited", post(text="limited"))
    assert limited.headers["retry-after"] == "3", limited.headers
    scopes = client.auth_test().headers["x-oauth-scopes"]
    assert "chat:write" in scopes, scopes
    assert client.users_info(user="U7")["user"]["id"] == "U7"
    assert client.files_info(file=os.environ["SLACK_FILE"])["file"]["url_private_download"]


wrong = WebClient(token="xoxb-wrong", base_url=f"{URL}/api/")
expect("invalid_auth", wrong.auth_test)
expect("not_allowed_token_type", lambda: client.apps_connections_open(app_token=BOT_TOKEN))

handler.connect()
print("connected", flush=True)
assert done.wait(40), seen
handler.close()
wanted = ["hello", "edited hello all", "deleted", "notes.txt", "mention", "command /stop", "after the change"]
assert seen == wanted, seen
print("all right", flush=True)
sys.stdout.flush()
os._exit(0)
