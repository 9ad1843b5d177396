"""A chat platform in a folder, as a program that is the adapter of a channel. Tests write what people do into
`people.jsonl` and read `state.json`; a file `fault` makes the next message fail.

A line of `people.jsonl` is {"event": {…}}, or {"do": "garbage" | "die" | "again" | "lost", "times": N}.
"""

import base64
import json
import os
import queue
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
ABILITIES = json.loads(os.environ.get("ABILITIES", "null")) or {
    "edit": True,
    "typing": True,
    "buttons": True,
    "files": True,
    "idempotent": True,
    "commands": True,
    "max_length": {"max": 4000, "unit": "code_points", "of": "markdown"},
    "stream": {"means": "edit", "interval": 0.2},
}


def fail(kind, message, **more):
    return {"error": {"kind": kind, "message": message, **more}}


class Platform:
    def __init__(self):
        self.lock = threading.RLock()
        self.answers = queue.Queue()
        try:
            self.state = json.loads((FOLDER / "state.json").read_text())
        except FileNotFoundError:
            self.state = {"messages": [], "acked": 0, "delivered": 0, "previews": 0, "told": []}
        with (FOLDER / "starts.jsonl").open("a") as starts:
            starts.write(json.dumps(dict(os.environ)) + "\n")

    def save(self, **changes):
        with self.lock:
            self.state.update(changes)
            new = FOLDER / f"state.{os.getpid()}"
            new.write_text(json.dumps(self.state))
            new.rename(FOLDER / "state.json")

    def write(self, line):
        with self.lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def take_fault(self):
        try:
            fault = (FOLDER / "fault").read_text()
            (FOLDER / "fault").unlink()
            return fault
        except FileNotFoundError:
            return None

    # What Angelia asks for.

    def initialize(self, params):
        assert params["protocol"] == 1, params
        if (FOLDER / "broken").exists():
            sys.exit("the token MY-SECRET-TOKEN is wrong: " + os.environ.get("CHAT_TOKEN", ""))
        return ABILITIES

    def receive(self, params):
        threading.Thread(target=self.deliver, args=[int(params["cursor"] or 0)], daemon=True).start()
        return {}

    def check(self, params):
        problem = (FOLDER / "problem").exists()
        return {"findings": [{"problem": problem, "text": "the folder is there"}]}

    def ping(self, params):
        return {}

    def send(self, params):
        # On a slow machine an answer has a preview first, which is not the message that should fail.
        fault = None if params["message"]["id"].startswith("preview-") else self.take_fault()
        if fault == "limit":
            return fail("not_sent", "too many messages", retry_after=1)
        if (FOLDER / "blocked").exists():
            return fail("refused", "the person has blocked the bot")
        message = params["message"]
        known = [one for one in self.state["messages"] if one["key"] == message["id"]]
        if known and ABILITIES.get("idempotent"):
            return {"message_id": known[0]["id"]}
        shown = {"id": f"m{len(self.state['messages']) + 1}", "key": message["id"]}
        self.state["messages"].append(shown)
        self.show(shown, params)
        if fault == "cut":
            os._exit(3)
        return {"message_id": shown["id"]}

    def show(self, shown, params):
        message = params["message"]
        shown["chat"] = params["chat"] + (f"#{params['thread']}" if params["thread"] else "")
        shown["text"] = message["text"]
        shown["markdown"] = message["markdown"]
        shown["buttons"] = [[one["label"], one["value"]] for one in message["buttons"]]
        shown["reply_to"] = message["reply_to"]
        # A card that was decided has no buttons any more; tests press the old ones.
        if shown["buttons"]:
            shown["old_buttons"] = shown["buttons"]
        self.save()

    def edit(self, params):
        for shown in self.state["messages"]:
            if shown["id"] == params["message_id"]:
                self.state["previews"] += 1
                self.show(shown, params)
                return {}
        return fail("refused", "there is no such message")

    begin_stream = send
    update_stream = edit
    end_stream = edit

    def typing(self, params):
        return {}

    def send_file(self, params):
        data = base64.b64encode(Path(params["path"]).read_bytes()).decode()
        message = {"id": f"m{len(self.state['messages']) + 1}", "key": params["id"], "chat": params["chat"]}
        self.state["messages"].append(message | {"text": params["name"], "buttons": [], "file": data})
        self.save()
        return {"message_id": message["id"]}

    def fetch_file(self, params):
        return {"path": str(FOLDER / params["file_id"])}

    def answer_press(self, params):
        self.state["told"].append(params["text"])
        self.save()
        return {}

    def register_commands(self, params):
        self.state["commands"] = [one["name"] for one in params["commands"]]
        self.save()
        return {}

    # What people do.

    def deliver(self, done):
        last = None
        while True:
            try:
                lines = (FOLDER / "people.jsonl").read_text().splitlines()
            except FileNotFoundError:
                lines = []
            for line in lines[:done]:
                last = json.loads(line).get("event", last)
            for index, line in enumerate(lines[done:], start=done + 1):
                line = json.loads(line)
                if "event" in line:
                    last = line["event"] | {"cursor": str(index)}
                    self.tell(last)
                    # Acknowledged is everything before the first line that is not.
                    self.save(acked=index)
                elif self.state.get("done", 0) < index:
                    # Such a line counts once, also over restarts.
                    self.save(done=index)
                    self.act(line, last)
                    self.save(acked=index)
                done = index
            time.sleep(0.02)

    def act(self, line, last):
        if line["do"] == "garbage":
            self.write("{")
            self.write("[1]")
            self.write('{"method": "event", "params": 7}')
            self.write('{"id": "g", "method": "event", "params": {"key": 1}}')
            self.write('{"id": 987654, "result": {}}')
            self.write("x" * (9 << 20))
        elif line["do"] == "die":
            print("the platform has gone away", file=sys.stderr, flush=True)
            os._exit(1)
        elif line["do"] == "lost":
            self.write(json.dumps({"method": "lost", "params": {"kind": "refused", "message": "the token is wrong"}}))
        elif line["do"] == "again":
            for _ in range(line["times"]):
                self.tell(last)

    def tell(self, event):
        """Delivers an event until it is stored."""
        while True:
            self.write(json.dumps({"id": "e", "method": "event", "params": event}))
            self.save(delivered=self.state["delivered"] + 1)
            answer = self.answers.get()
            if "result" in answer:
                return
            time.sleep(0.05)

    def run(self):
        for line in sys.stdin:
            line = json.loads(line)
            if "method" not in line:
                if line["id"] == "e":
                    self.answers.put(line)
                continue
            with self.lock:
                answer = getattr(self, line["method"])(line["params"])
            if "error" not in answer:
                answer = {"result": answer}
            self.write(json.dumps({"id": line["id"], **answer}))


Platform().run()
