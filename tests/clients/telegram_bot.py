"""python-telegram-bot against the fake server of the Bot API: whatever it can do there, the fake does right."""

import asyncio
import os
import sys

from telegram import InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import BadRequest, Forbidden, InvalidToken, RetryAfter
from telegram.ext import Application, CallbackQueryHandler, MessageHandler, filters

URL = os.environ["TELEGRAM_URL"]
TOKEN = os.environ["TELEGRAM_TOKEN"]

seen = []
pressed = asyncio.Event()


def build(token):
    builder = Application.builder().token(token)
    return builder.base_url(f"{URL}/bot").base_file_url(f"{URL}/file/bot").build()


async def on_message(update, context):
    message = update.effective_message
    seen.append(message.text or message.document.file_name)
    if message.document:
        file = await message.document.get_file()
        content = bytes(await file.download_as_bytearray())
        await message.reply_document(content, filename="back.txt")
        return
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes:1")]])
    sent = await message.reply_text(f"<b>got</b> {message.text}", parse_mode="HTML", reply_markup=keyboard)
    assert sent.text == f"got {message.text}", sent.text


async def on_press(update, context):
    query = update.callback_query
    assert query.data == "yes:1" and query.from_user.id == 7, query
    await query.answer("noted")
    await query.edit_message_text("decided")
    try:
        await query.edit_message_text("decided")
        raise AssertionError("an edit without a change was accepted")
    except BadRequest as error:
        assert "not modified" in str(error), error
    pressed.set()


async def refusals(bot):
    for call, wanted in [
        (bot.send_message(7, "<b>open", parse_mode="HTML"), "parse entities"),
        (bot.send_message(7, "x" * 5000), "too long"),
        (bot.send_message(7, " "), "empty"),
        (bot.edit_message_text("x", 7, 99999), "not found"),
    ]:
        try:
            await call
            raise AssertionError(f"accepted, wanted: {wanted}")
        except BadRequest as error:
            assert wanted in str(error), error
    try:
        await bot.send_message(7, "limited")
        raise AssertionError("the limit was ignored")
    except RetryAfter as error:
        assert int(error.retry_after if isinstance(error.retry_after, int) else error.retry_after.total_seconds()) == 3
    try:
        await bot.send_message(8, "hello")
        raise AssertionError("a blocked bot could write")
    except Forbidden as error:
        assert "blocked" in str(error), error
    assert await bot.send_chat_action(7, "typing")


async def main():
    try:
        await build("1:wrong").bot.initialize()
        raise AssertionError("a wrong token was accepted")
    except InvalidToken:
        pass
    app = build(TOKEN)
    app.add_handler(MessageHandler(filters.ALL, on_message))
    app.add_handler(CallbackQueryHandler(on_press))
    async with app:
        await app.start()
        await app.updater.start_polling(timeout=5)
        print("polling", flush=True)
        await asyncio.wait_for(pressed.wait(), 30)
        await refusals(app.bot)
        await app.updater.stop()
        await app.stop()
    assert seen == ["hello", "notes.txt"], seen
    print("all right", flush=True)


asyncio.run(main())
sys.exit(0)
