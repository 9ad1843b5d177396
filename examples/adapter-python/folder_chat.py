#!/usr/bin/env python3
"""An adapter for Angelia, with nothing but the standard library: a chat in a folder.

Each person has a folder. A line that is added to `in.txt` there is a message; the bot's messages are in `out.md`.
The line `[Deny]` presses the button "Deny", and `file: PATH` sends a file.
"""

import json
import shutil
import sys
import threading
import time
from pathlib import Path
from queue import Queue

FOLDER = Path(sys.argv[1]).expanduser()
ABILITIES = {"edit": True, "buttons": True, "files": True, "idempotent": True}
ABILITIES |= {"max_length": {"max": 4000, "unit": "code_points"}, "stream": {"means": "edit", "interval": 1}}
output_lock = threading.Lock()
event_answers = Queue()


class Failed(Exception):
    """The kind, `refused` for ever or `not_sent` for now, and the reason."""


def write(line):
    with output_lock:
        print(json.dumps(line), flush=True)


def folder_of(chat):
    folder = FOLDER / chat
    if folder.parent != FOLDER or not folder.is_dir():
        raise Failed("refused", f"there is no folder {chat}")
    return folder


def load(chat):
    try:
        return json.loads((folder_of(chat) / "messages.json").read_text())
    except FileNotFoundError:
        return []


def save(chat, messages):
    """Keeps the messages, and shows them."""
    new = folder_of(chat) / "messages.json.new"
    new.write_text(json.dumps(messages))
    new.rename(new.with_suffix(""))
    shown = [m["text"] + "".join(f"\n[{b['label']}]" for b in m["buttons"]) for m in messages]
    (folder_of(chat) / "out.md").write_text("\n\n---\n\n".join(shown) + "\n")


# What Angelia asks for: the name of a function is the method, its result the answer.
def initialize(params):
    return ABILITIES


def ping(params):
    return {}


def check(params):
    return {"findings": [{"problem": not FOLDER.is_dir(), "text": f"the folder is {FOLDER}"}]}


def receive(params):
    if not FOLDER.is_dir():
        raise Failed("not_sent", f"there is no folder {FOLDER}")
    offsets = json.loads(params["cursor"] or "{}")
    threading.Thread(target=watch, args=[offsets], daemon=True).start()
    return {}


def send(params):
    messages, new = load(params["chat"]), params["message"]
    # The same id is the same message: it is not sent twice.
    if new["id"] not in [message["id"] for message in messages]:
        messages.append({"id": new["id"], "text": new["markdown"], "buttons": new["buttons"]})
        save(params["chat"], messages)
    return {"message_id": new["id"]}


def edit(params):
    messages, new = load(params["chat"]), params["message"]
    for message in messages:
        if message["id"] == params["message_id"]:
            message.update(text=new["markdown"], buttons=new["buttons"])
            save(params["chat"], messages)
            return {}
    raise Failed("refused", "there is no such message")


def send_file(params):
    shutil.copyfile(params["path"], folder_of(params["chat"]) / Path(params["name"]).name)
    message = {"id": params["id"], "markdown": f"(file: {params['name']})", "buttons": []}
    return send({"chat": params["chat"], "message": message})


def fetch_file(params):
    return {"path": params["file_id"]}


def answer_press(params):
    print(f"told: {params['text']}", file=sys.stderr)  # Standard error is the log.
    return {}


# What people do.
def watch(offsets):
    """Reports every new line, one after the other. The cursor says how far each file was read."""
    while True:
        for path in sorted(FOLDER.glob("*/in.txt")):
            person, begin = path.parent.name, offsets.get(path.parent.name, 0)
            for line in path.read_bytes()[begin:].splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                key, begin = f"{person}:{begin}", begin + len(line)
                offsets[person] = begin
                report(key, person, line.decode(errors="replace").strip(), json.dumps(offsets))
        time.sleep(0.2)


def report(key, person, text, cursor):
    event = {"key": key, "cursor": cursor, "chat": person, "sender": {"id": person, "name": person}}
    buttons = [b for m in load(person) for b in m["buttons"] if text == f"[{b['label']}]"]
    if buttons:
        event |= {"kind": "press", "press_id": key, "value": buttons[-1]["value"], "direct": True}
    else:
        event |= {"kind": "message", "message_id": key, "text": text, "direct": True}
        if text.startswith("file: "):
            path = Path(text[6:].strip())
            event |= {"text": "", "files": [{"id": str(path), "name": path.name}]}
    while True:  # Until it is stored: whatever happens then, it has one turn.
        write({"id": key, "method": "event", "params": event})
        if "result" in event_answers.get():
            return
        time.sleep(1)


for line in sys.stdin:
    line = json.loads(line)
    if "method" not in line:
        event_answers.put(line)
        continue
    try:
        write({"id": line["id"], "result": globals()[line["method"]](line["params"])})
    except Failed as error:
        write({"id": line["id"], "error": dict(zip(["kind", "message"], error.args))})
