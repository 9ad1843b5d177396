"""matrix-nio against the fake homeserver: whatever it can do there, the fake does right."""

import asyncio
import io
import os

import nio

URL = os.environ["MATRIX_URL"]
TOKEN = os.environ["MATRIX_TOKEN"]
USER = os.environ["MATRIX_USER"]
ADA = "@ada:test.example"

seen = []
ended = asyncio.Event()


def build(token):
    config = nio.AsyncClientConfig(max_limit_exceeded=0, max_timeouts=0)
    client = nio.AsyncClient(URL, USER, config=config)
    client.access_token = token
    client.user_id = USER
    return client


async def send(client, room, content, transaction=None):
    return await client.room_send(room.room_id, "m.room.message", content, tx_id=transaction)


async def on_invite(client, room, event):
    if event.state_key == USER:
        joined = await client.join(room.room_id)
        assert isinstance(joined, nio.JoinResponse), joined
        print("joined", flush=True)


async def on_text(client, room, event):
    if event.sender == USER:
        return
    seen.append(event.body)
    if event.body == "hello":
        await answer_hello(client, room, event)
    elif event.body == "end":
        await refusals(client, room)
        ended.set()


async def answer_hello(client, room, event):
    members = await client.joined_members(room.room_id)
    assert {one.user_id for one in members.members} == {USER, ADA}, members
    assert await client.room_typing(room.room_id, True, 3000)
    content = {
        "msgtype": "m.text",
        "body": "got hello",
        "format": "org.matrix.custom.html",
        "formatted_body": "<p><strong>got</strong> hello</p>",
        "m.relates_to": {"m.in_reply_to": {"event_id": event.event_id}},
    }
    sent = await send(client, room, content, "t1")
    again = await send(client, room, content, "t1")
    assert sent.event_id == again.event_id, "a transaction is one event"
    key = {"rel_type": "m.annotation", "event_id": sent.event_id, "key": "1\ufe0f\u20e3"}
    for wanted in [nio.RoomSendResponse, nio.RoomSendError]:
        reacted = await client.room_send(room.room_id, "m.reaction", {"m.relates_to": key})
        assert isinstance(reacted, wanted), reacted
    edit = {
        "msgtype": "m.text",
        "body": "* edited",
        "m.new_content": {"msgtype": "m.text", "body": "edited"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": sent.event_id},
    }
    assert isinstance(await send(client, room, edit), nio.RoomSendResponse)
    found = await client.room_get_event(room.room_id, sent.event_id)
    assert found.event.body == "got hello", found
    assert found.event.source["unsigned"]["m.relations"]["m.replace"]["content"]["body"] == "* edited"


async def on_file(client, room, event):
    if event.sender == USER:
        return
    got = await client.download(event.url)
    assert got.body == b"some notes", got
    seen.append(event.body)
    data = b"back again"
    up, _ = await client.upload(lambda *_: io.BytesIO(data), "text/plain", "back.txt", filesize=len(data))
    assert isinstance(up, nio.UploadResponse), up
    content = {"msgtype": "m.file", "body": "back.txt", "url": up.content_uri}
    assert isinstance(await send(client, room, content), nio.RoomSendResponse)


async def on_reaction(client, room, event):
    if event.sender != USER:
        seen.append(f"{event.key} on {event.reacts_to}")


async def on_redaction(client, room, event):
    seen.append(f"redacted {event.redacts}")


async def on_encrypted(client, room, event):
    assert room.encrypted
    seen.append("encrypted")


async def refusals(client, room):
    limited = await send(client, room, {"msgtype": "m.text", "body": "limited"})
    assert isinstance(limited, nio.RoomSendError), limited
    assert limited.status_code == "M_LIMIT_EXCEEDED" and limited.retry_after_ms == 700, limited
    long = await send(client, room, {"msgtype": "m.text", "body": "x" * 70000})
    assert long.status_code == "M_TOO_LARGE", long
    missing = await client.room_get_event(room.room_id, "$nothing")
    assert missing.status_code == "M_NOT_FOUND", missing
    other = await client.joined_members("!elsewhere:test.example")
    assert other.status_code == "M_FORBIDDEN", other
    history = await client.room_messages(room.room_id, client.next_batch, limit=2)
    assert len(history.chunk) == 2 and history.end, history
    more = await client.room_messages(room.room_id, history.end, limit=500)
    assert more.chunk and not more.end, more
    wrong = build("wrong")
    who = await wrong.whoami()
    assert isinstance(who, nio.WhoamiError) and who.status_code == "M_UNKNOWN_TOKEN", who
    await wrong.close()


async def main():
    client = build(TOKEN)
    who = await client.whoami()
    assert who.user_id == USER, who
    assert (await client.get_displayname(USER)).displayname == "Angelia Bot"
    first = await client.sync(timeout=0)
    assert isinstance(first, nio.SyncResponse), first
    callbacks = [
        (on_text, nio.RoomMessageText),
        (on_file, nio.RoomMessageFile),
        (on_reaction, nio.ReactionEvent),
        (on_redaction, nio.RedactionEvent),
        (on_encrypted, nio.MegolmEvent),
        (on_invite, nio.InviteMemberEvent),
    ]
    for callback, kind in callbacks:
        client.add_event_callback(lambda room, event, run=callback: run(client, room, event), kind)
    print("polling", flush=True)
    polling = asyncio.create_task(client.sync_forever(timeout=5000))
    await asyncio.wait_for(ended.wait(), 40)
    polling.cancel()
    rooms = await client.joined_rooms()
    print("seen", seen, len(rooms.rooms), flush=True)
    await client.close()
    print("all right", flush=True)


asyncio.run(main())
