"""mattermostdriver against the fake server of Mattermost: whatever it can do there, the fake does right."""

import asyncio
import io
import json
import os
from urllib.parse import urlparse

from mattermostdriver import Driver
from mattermostdriver.exceptions import (
    InvalidOrMissingParameters,
    NoAccessTokenProvided,
    NotEnoughPermissions,
    ResourceNotFound,
)

URL = urlparse(os.environ["MATTERMOST_URL"])
TOKEN = os.environ["MATTERMOST_TOKEN"]
OPTIONS = {"scheme": "http", "url": URL.hostname, "port": URL.port, "keepalive": True, "keepalive_delay": 0.05}

seen = []


def build(token):
    driver = Driver({**OPTIONS, "token": token})
    driver.login()
    return driver


def refused(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"accepted, wanted: {kind}")


def answer_hello(driver, post):
    channel = post["channel_id"]
    sent = driver.posts.create_post({"channel_id": channel, "message": "**got** hello", "root_id": post["id"]})
    assert sent["root_id"] == post["id"] and sent["user_id"] == driver.client.userid, sent
    for name in ["one", "two"]:
        driver.reactions.create_reaction(
            {"user_id": driver.client.userid, "post_id": sent["id"], "emoji_name": name}
        )
    driver.posts.patch_post(sent["id"], {"message": "edited", "props": {"kept": [1]}})
    again = driver.posts.get_post(sent["id"])
    assert again["message"] == "edited" and again["edit_at"] > 0 and again["props"]["kept"] == [1], again
    driver.client.make_request("post", "/users/me/typing", options={"channel_id": channel})


def answer_file(driver, post):
    file = post["metadata"]["files"][0]
    seen.append(file["name"])
    content = driver.files.get_file(file["id"]).content
    assert content == b"some notes", content
    back = driver.files.upload_file(post["channel_id"], {"files": ("back.txt", io.BytesIO(content))})
    driver.posts.create_post(
        {"channel_id": post["channel_id"], "message": "", "file_ids": [back["file_infos"][0]["id"]]}
    )


def check_refusals(driver, post):
    channel = post["channel_id"]
    create = driver.posts.create_post
    refused(InvalidOrMissingParameters, lambda: create({"channel_id": channel, "message": ""}))
    long = {"channel_id": channel, "message": "x" * 17000}
    assert "longer" in refused(InvalidOrMissingParameters, lambda: create(long))
    refused(ResourceNotFound, lambda: create({"channel_id": "nothing", "message": "x"}))
    refused(ResourceNotFound, lambda: driver.posts.get_post("nothing"))
    refused(NotEnoughPermissions, lambda: driver.posts.patch_post(post["id"], {"message": "x"}))
    refused(NoAccessTokenProvided, lambda: build("wrong"))
    since = driver.posts.get_posts_for_channel(channel, params={"since": post["create_at"] - 1})
    assert post["id"] in since["posts"] and since["order"], since
    channels = driver.client.get("/users/me/channels")
    assert any(one["id"] == channel and one["type"] == "D" for one in channels), channels
    assert driver.teams.get_user_teams("me")


def main():
    driver = build(TOKEN)
    assert driver.client.username == "angelia-bot", driver.client.username

    async def on_event(text):
        frame = json.loads(text)
        kind = frame.get("event")
        if kind == "hello":
            print("greeted", flush=True)
        if kind == "reaction_added":
            reaction = json.loads(frame["data"]["reaction"])
            if reaction["user_id"] != driver.client.userid:
                seen.append(f"reaction {reaction['emoji_name']}")
        if kind in ("post_edited", "post_deleted"):
            post = json.loads(frame["data"]["post"])
            if post["user_id"] != driver.client.userid:
                seen.append(f"{kind} {post['message']}")
        if kind != "posted":
            return
        post = json.loads(frame["data"]["post"])
        if post["user_id"] == driver.client.userid:
            return
        assert frame["data"]["channel_type"] == "D", frame
        if post["message"]:
            seen.append(post["message"])
        if post["message"] == "hello":
            answer_hello(driver, post)
        elif post["metadata"].get("files"):
            answer_file(driver, post)
        elif post["message"] == "end":
            check_refusals(driver, post)
            print("seen", seen, flush=True)
            print("all right", flush=True)
            os._exit(0)

    asyncio.set_event_loop(asyncio.new_event_loop())
    driver.init_websocket(on_event)


main()
