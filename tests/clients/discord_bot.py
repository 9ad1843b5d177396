"""discord.py against the fake gateway and REST API: whatever it can do there, the fake does right."""

import asyncio
import io
import os
import sys

import discord
import yarl
from discord import app_commands

URL = os.environ["DISCORD_URL"]
TOKEN = os.environ["DISCORD_TOKEN"]

discord.http.Route.BASE = f"{URL}/api/v10"
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(URL.replace("http://", "ws://") + "/gw")

seen = []
ended = asyncio.Event()


def intents():
    wanted = discord.Intents(guilds=True, guild_messages=True, dm_messages=True)
    wanted.message_content = True
    return wanted


class Question(discord.ui.View):
    @discord.ui.button(label="Yes", custom_id="yes:1")
    async def press(self, interaction, button):
        assert interaction.user.id == 7, interaction.user
        await interaction.response.send_message("noted", ephemeral=True)
        await interaction.message.edit(content="decided", view=None)
        try:
            await interaction.response.defer()
            raise AssertionError("an interaction was answered twice")
        except discord.InteractionResponded:
            pass


class Bot(discord.Client):
    def __init__(self):
        super().__init__(intents=intents())
        self.tree = app_commands.CommandTree(self)
        self.ready_count = 0

    async def on_ready(self):
        self.ready_count += 1
        seen.append("ready")
        if self.ready_count == 1:
            assert self.user.id == 123456, self.user
            await self.tree.sync()
            print("ready", flush=True)

    async def on_resumed(self):
        seen.append("resumed")

    async def on_message(self, message):
        if message.author.bot:
            return
        if message.attachments:
            seen.append(message.attachments[0].filename)
            content = await message.attachments[0].read()
            assert message.attachments[0].content_type.startswith("text/plain")
            await message.channel.send(file=discord.File(io.BytesIO(content), "back.txt"))
            return
        seen.append(message.content)
        if message.content == "hello":
            assert message.guild is None
            await message.reply(f"**got** {message.content}", view=Question(timeout=None), mention_author=False)
        elif message.guild is not None:
            assert self.user in message.mentions, message.mentions
            assert isinstance(message.channel, discord.Thread) and message.channel.parent_id == 4000
            assert [role.id for role in message.author.roles] == [3000], message.author.roles
            await message.channel.send("in the thread")
        elif message.content == "refusals":
            await refusals(self, message.channel)
            await message.channel.send("all refused")
        elif message.content == "end":
            ended.set()

    async def on_message_edit(self, before, after):
        seen.append(f"edited {before.content} {after.content}")

    async def on_message_delete(self, message):
        seen.append(f"deleted {message.content}")


async def refusals(bot, channel):
    for call, kind, code in [
        (channel.send("x" * 2001), discord.HTTPException, 50035),
        (channel.send(" "), discord.HTTPException, 50006),
        (channel.get_partial_message(5).edit(content="x"), discord.NotFound, 10008),
        (bot.get_partial_messageable(5).send("x"), discord.NotFound, 10003),
        (bot.get_partial_messageable(98).send("x"), discord.Forbidden, 50007),
    ]:
        try:
            await call
            raise AssertionError(f"accepted, wanted: {code}")
        except kind as error:
            assert error.code == code, error
    first = await channel.send("once", nonce="n1")
    second = await channel.send("once", nonce="n1")
    assert first.id == second.id
    # It waits by itself, as the headers say.
    other = bot.get_partial_messageable(95)
    for number in range(7):
        await other.send(str(number))
    async with channel.typing():
        pass


async def main():
    try:
        await Bot().login("wrong.to.ken")
        raise AssertionError("a wrong token was accepted")
    except discord.LoginFailure:
        pass
    bot = Bot()

    @bot.tree.command(name="status", description="say how it is")
    async def status(interaction: discord.Interaction, text: str = ""):
        assert text == "now", text
        seen.append("command")
        await interaction.response.send_message("fine", ephemeral=True)

    running = asyncio.create_task(bot.start(TOKEN))
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait([running, waiting], timeout=60, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    assert ended.is_set(), seen
    await bot.close()
    print(seen, flush=True)
    print("all right", flush=True)


async def refused():
    try:
        await Bot().start(TOKEN)
        raise AssertionError("the intents were accepted")
    except discord.PrivilegedIntentsRequired:
        print("all right", flush=True)


asyncio.run(refused() if os.environ.get("DISCORD_REFUSED") else main())
sys.exit(0)
