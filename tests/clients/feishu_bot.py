"""lark-oapi against the fake server of Feishu: whatever it can do there, the fake does right.

`client`: ws.Client receives, Client sends. `channel`: channel.FeishuChannel does both, and streams.
"""

import asyncio
import io
import json
import os
import sys
import threading
import time

import lark_oapi as lark
from lark_oapi.api.application.v6 import GetApplicationRequest, ListScopeRequest
from lark_oapi.api.cardkit.v1 import (
    Card, ContentCardElementRequest, ContentCardElementRequestBody, CreateCardRequest, CreateCardRequestBody,
    SettingsCardRequest, SettingsCardRequestBody, UpdateCardRequest, UpdateCardRequestBody,
)
from lark_oapi.api.contact.v3 import GetUserRequest
from lark_oapi.api.im.v1 import (
    CreateFileRequest, CreateFileRequestBody, CreateImageRequest, CreateImageRequestBody, CreateMessageRequest,
    CreateMessageRequestBody, GetChatRequest, GetMessageRequest, GetMessageResourceRequest, PatchMessageRequest,
    PatchMessageRequestBody, ReplyMessageRequest, ReplyMessageRequestBody,
)
from lark_oapi.channel import FeishuChannel
from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTriggerResponse
from lark_oapi.ws.exception import ClientException

URL = os.environ["FEISHU_URL"]
APP_ID = os.environ["FEISHU_APP_ID"]
APP_SECRET = os.environ["FEISHU_APP_SECRET"]

client = lark.Client.builder().app_id(APP_ID).app_secret(APP_SECRET).domain(URL).build()
seen = []
pressed = threading.Event()


def card(text, label=None):
    elements = [{"tag": "markdown", "element_id": "words", "content": text}]
    if label:
        behaviors = [{"type": "callback", "value": {"answer": label}}]
        elements.append({"tag": "button", "text": {"tag": "plain_text", "content": label}, "behaviors": behaviors})
    return {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": elements}}


def send(kind, content, uuid=None, chat="oc_with_ou_7"):
    body = CreateMessageRequestBody.builder().receive_id(chat).msg_type(kind).content(json.dumps(content))
    if uuid:
        body = body.uuid(uuid)
    request = CreateMessageRequest.builder().receive_id_type("chat_id").request_body(body.build()).build()
    return client.im.v1.message.create(request)


def right(response):
    assert response.success(), (response.code, response.msg)
    return getattr(response, "data", None)


def wrong(response, code):
    assert response.code == code, (response.code, response.msg)


def on_message(event):
    message = event.event.message
    seen.append((message.message_type, json.loads(message.content)))
    if message.message_type == "file":
        key = json.loads(message.content)["file_key"]
        request = GetMessageResourceRequest.builder().message_id(message.message_id).file_key(key).type("file")
        content = client.im.v1.message_resource.get(request.build()).file.read()
        back = io.BytesIO(content)
        back.name = "back.txt"
        body = CreateFileRequestBody.builder().file_type("stream").file_name("back.txt").file(back).build()
        key = right(client.im.v1.file.create(CreateFileRequest.builder().request_body(body).build())).file_key
        right(send("file", {"file_key": key}))
        return
    text = json.loads(message.content)["text"]
    body = ReplyMessageRequestBody.builder().msg_type("interactive").content(json.dumps(card(f"**got** {len(text)}", "Yes")))
    request = ReplyMessageRequest.builder().message_id(message.message_id).request_body(body.build()).build()
    right(client.im.v1.message.reply(request))


def on_press(event):
    assert event.event.operator.open_id == "ou_7" and event.event.action.value == {"answer": "Yes"}, event
    message = event.event.context.open_message_id
    body = PatchMessageRequestBody.builder().content(json.dumps(card("decided"))).build()
    right(client.im.v1.message.patch(PatchMessageRequest.builder().message_id(message).request_body(body).build()))
    pressed.set()
    return P2CardActionTriggerResponse({"toast": {"type": "info", "content": "noted"}})


def grow(card_id, text, sequence):
    body = ContentCardElementRequestBody.builder().content(text).sequence(sequence).build()
    request = ContentCardElementRequest.builder().card_id(card_id).element_id("words").request_body(body).build()
    return client.cardkit.v1.card_element.content(request)


def stream():
    growing = card("so")
    growing["config"]["streaming_mode"] = True
    body = CreateCardRequestBody.builder().type("card_json").data(json.dumps(growing)).build()
    made = client.cardkit.v1.card.create(CreateCardRequest.builder().request_body(body).build())
    card_id = right(made).card_id
    right(send("interactive", {"type": "card", "data": {"card_id": card_id}}))
    wrong(grow(card_id, "so far", 0), 300317)
    right(grow(card_id, "so far", 1))
    wrong(grow(card_id, "so far", 1), 300317)
    settings = json.dumps({"config": {"streaming_mode": False}})
    body = SettingsCardRequestBody.builder().settings(settings).sequence(2).build()
    right(client.cardkit.v1.card.settings(SettingsCardRequest.builder().card_id(card_id).request_body(body).build()))
    wrong(grow(card_id, "more", 3), 300309)
    whole = Card.builder().type("card_json").data(json.dumps(card("so far, so good"))).build()
    body = UpdateCardRequestBody.builder().card(whole).sequence(4).build()
    right(client.cardkit.v1.card.update(UpdateCardRequest.builder().card_id(card_id).request_body(body).build()))


def answers():
    first = right(send("text", {"text": "once"}, uuid="same"))
    second = right(send("text", {"text": "once"}, uuid="same"))
    assert first.message_id == second.message_id
    found = right(client.im.v1.message.get(GetMessageRequest.builder().message_id(first.message_id).build())).items[0]
    assert json.loads(found.body.content) == {"text": "once"} and found.sender.id == APP_ID
    wrong(send("interactive", {"schema": "2.0"}), 230099)
    wrong(send("interactive", card("[x](file:///etc/passwd)")), 230001)
    wrong(send("interactive", card("x" * 40_000)), 230025)
    wrong(send("text", {"text": "hello"}, chat="oc_with_ou_8"), 230013)
    wrong(send("text", {"text": "limited"}), 99991400)
    picture = io.BytesIO(b"\x89PNG")
    picture.name = "a.png"
    body = CreateImageRequestBody.builder().image_type("message").image(picture).build()
    assert right(client.im.v1.image.create(CreateImageRequest.builder().request_body(body).build())).image_key
    chat = right(client.im.v1.chat.get(GetChatRequest.builder().chat_id("oc_with_ou_7").build()))
    assert chat.chat_mode == "p2p", chat.chat_mode
    person = GetUserRequest.builder().user_id("ou_7").user_id_type("open_id").build()
    assert right(client.contact.v3.user.get(person)).user.name == "Person ou_7"
    scopes = right(client.application.v6.scope.list(ListScopeRequest.builder().build())).scopes
    assert any(scope.scope_name == "cardkit:card:write" and scope.grant_status == 1 for scope in scopes)
    app = right(client.application.v6.application.get(GetApplicationRequest.builder().app_id(APP_ID).lang("en_us").build())).app
    assert app.event.subscription_type == "websocket" and app.callback.callback_type == "websocket"
    assert app.callback.subscribed_callbacks == ["card.action.trigger"]
    stream()


def run_client():
    try:
        lark.ws.Client(APP_ID, "wrong", domain=URL, auto_reconnect=False).start()
        raise AssertionError("a wrong secret was accepted")
    except ClientException as error:
        assert "app secret invalid" in str(error), error
    handler = lark.EventDispatcherHandler.builder("", "")
    handler = handler.register_p2_im_message_receive_v1(on_message).register_p2_card_action_trigger(on_press).build()
    socket = lark.ws.Client(APP_ID, APP_SECRET, event_handler=handler, domain=URL, auto_reconnect=True)
    threading.Thread(target=socket.start, daemon=True).start()
    assert pressed.wait(60), "nobody pressed"
    answers()
    kinds = [kind for kind, _ in seen]
    assert kinds == ["text", "file", "text"], kinds
    assert seen[2][1]["text"] == "long " * 2000


async def run_channel():
    channel = FeishuChannel(app_id=APP_ID, app_secret=APP_SECRET, domain=URL)
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def on_channel_message(message):
        async def produce(controller):
            for word in ["one ", "two ", "three"]:
                await controller.append(word)
                await asyncio.sleep(0.15)

        await channel.stream(message.chat_id, {"markdown": produce})
        loop.call_soon_threadsafe(done.set)

    channel.on("message", on_channel_message)
    await channel.start_background(timeout=30)
    assert channel.bot_identity.open_id == "ou_bot", channel.bot_identity
    print("ready", flush=True)
    await asyncio.wait_for(done.wait(), 60)
    await channel.stop_background()


if os.environ["FEISHU_PART"] == "client":
    run_client()
else:
    asyncio.run(run_channel())
print("all right", flush=True)
time.sleep(0.1)
os._exit(0)
