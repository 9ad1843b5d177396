"""dingtalk-stream against the fake server of DingTalk: whatever it can do there, the fake does right."""

import asyncio
import os
import sys
import traceback

URL = os.environ["DINGTALK_URL"]
os.environ["DINGTALK_OPENAPI_ENDPOINT"] = URL

import requests

real_post = requests.post


def post_here(url, *args, **kwargs):
    """The library has the address for uploads as a constant."""
    return real_post(url.replace("https://oapi.dingtalk.com", URL), *args, **kwargs)


requests.post = post_here

import dingtalk_stream
from dingtalk_stream import AckMessage
from dingtalk_stream.card_callback import CardCallbackMessage, Card_Callback_Router_Topic
from dingtalk_stream.chatbot import ChatbotHandler, ChatbotMessage
from dingtalk_stream.card_replier import CardReplier

CLIENT_ID = os.environ["DINGTALK_CLIENT_ID"]
CLIENT_SECRET = os.environ["DINGTALK_CLIENT_SECRET"]
TEMPLATE = os.environ["DINGTALK_TEMPLATE"]

dingtalk_stream.DingTalkStreamClient.get_host_ip = lambda self: "127.0.0.1"
seen = []
done = asyncio.Event()


class Robot(ChatbotHandler):
    async def process(self, callback):
        message = ChatbotMessage.from_dict(callback.data)
        if message.message_type == "picture":
            url = self.get_image_download_url(message.image_content.download_code)
            content = requests.get(url).content
            assert content == b"some notes", content
            media = self.dingtalk_client.upload_to_dingtalk(content)
            assert media.startswith("@"), media
            seen.append("picture")
            return AckMessage.STATUS_OK, "OK"
        text = message.text.content.strip()
        seen.append(text)
        if text == "hello":
            assert message.sender_staff_id == "ada" and message.conversation_type == "1", message
            answer = self.reply_text("got <hello>", message)
            assert answer["errcode"] == 0, answer
            answer = self.reply_markdown("title", "**bold** `code` \\*", message)
            assert answer["errcode"] == 0, answer
        elif text == "closed":
            answer = self.reply_text("too late", message)
            assert answer["errcode"] == 300001, answer
        elif text == "card":
            card = self.ai_markdown_card_start(message, "title")
            card.ai_streaming("so far")
            card.ai_streaming(", so good", append=True)
            buttons = [{"text": "Yes", "color": "blue", "id": "v:1", "request": True}]
            card.ai_finish(button_list=buttons)
        elif text == "in a group":
            assert message.conversation_type == "2" and message.is_in_at_list, message
            replier = CardReplier(self.dingtalk_client, message)
            replier.create_and_deliver_card(TEMPLATE, {"msgContent": "for the group", "flowStatus": "3"})
        elif text == "again":
            # With a token that is not accepted any more, and with a new one.
            assert self.get_image_download_url("x") == ""
            self.dingtalk_client.reset_access_token()
            assert self.dingtalk_client.get_access_token()
            done.set()
        return AckMessage.STATUS_OK, "OK"


class Presses(dingtalk_stream.CallbackHandler):
    async def process(self, callback):
        press = CardCallbackMessage.from_dict(callback.data)
        seen.append((press.user_id, press.content["cardPrivateData"]["actionIds"][0]))
        return AckMessage.STATUS_OK, {"cardData": {"cardParamMap": {}}}


def client(secret):
    return dingtalk_stream.DingTalkStreamClient(dingtalk_stream.Credential(CLIENT_ID, secret))


async def main():
    wrong = client("wrong")
    assert wrong.open_connection() is None and wrong.get_access_token() is None
    robot = client(CLIENT_SECRET)
    robot.register_callback_handler(ChatbotMessage.TOPIC, Robot())
    robot.register_callback_handler(Card_Callback_Router_Topic, Presses())
    asyncio.create_task(robot.start())
    await asyncio.wait_for(done.wait(), 60)
    # The last acknowledgement is on its way.
    await asyncio.sleep(0.5)
    assert seen == ["hello", "closed", "card", ("ada", "v:1"), "picture", "in a group", "again"], seen
    print("all right", flush=True)


async def run():
    status = 1
    try:
        await asyncio.wait_for(main(), 90)
        status = 0
    except BaseException:
        traceback.print_exc()
    # The library goes on when its task is cancelled.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


asyncio.run(run())
