"""A small host application for `angelia bridge`, with nothing but Python's standard library.

    python3 host.py "What is in this folder?" "And in its largest file?"

Each argument is one turn of the same conversation; run it again and the conversation goes on.
`Bridge` is the part to take along; `main` shows how it is used. The protocol is in docs/bridge.md.
"""

import argparse
import itertools
import json
import queue
import subprocess
import sys
import threading


class BridgeError(Exception):
    """A request that was refused; `code` says why."""

    def __init__(self, event):
        super().__init__(event["message"])
        self.code = event["code"]


class Bridge:
    """One `angelia bridge` process. Runs of different sessions may be under way at once."""

    def __init__(self, program="angelia", *flags):
        self._process = subprocess.Popen(
            [program, "bridge", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._numbers = itertools.count(1)
        self._waiting = {}  # request_id -> queue of its events
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def run(self, session_id, message, **options):
        """Runs one turn and yields its events as they come; the last one is `final`."""
        request_id, events = self._expect()
        try:
            self._send(type="run", request_id=request_id, session_id=session_id,
                       message=message, **options)
            while True:
                event = events.get()
                if event is None:
                    raise ConnectionError("the bridge has gone")
                if event["type"] == "error":
                    raise BridgeError(event)
                yield event
                if event["type"] == "final":
                    return
        finally:
            del self._waiting[request_id]

    def interrupt(self, session_id, message=None):
        self._send(type="interrupt", session_id=session_id, message=message)

    def approve(self, approval_id, verdict, answers=None, note=None):
        """`verdict` is `once`, `session`, `deny` or `stop`."""
        self._send(type="approve", approval_id=approval_id, verdict=verdict, note=note,
                   answers=answers or {})

    def ping(self):
        request_id, events = self._expect()
        self._send(type="ping", request_id=request_id)
        return events.get()["type"] == "pong"

    def close(self):
        """Ends the bridge; what still runs is interrupted and gets its `final`."""
        request_id, events = self._expect()
        self._send(type="shutdown", request_id=request_id)
        events.get()
        self._process.stdin.close()
        return self._process.wait()

    def _expect(self):
        request_id = f"py-{next(self._numbers)}"
        events = self._waiting[request_id] = queue.Queue()
        return request_id, events

    def _send(self, **request):
        line = json.dumps(request) + "\n"
        with self._lock:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()

    def _read(self):
        # Always reading is the host's part of the bargain: events wait for whoever asked.
        for line in self._process.stdout:
            event = json.loads(line)
            waiting = self._waiting.get(event.get("request_id"))
            if waiting is not None:
                waiting.put(event)
            elif event["type"] == "error":
                print(f"bridge: {event['code']}: {event['message']}", file=sys.stderr)
        for waiting in list(self._waiting.values()):
            waiting.put(None)


def decide(bridge, event, yes):
    """Answers an approval: by the flag here; a real host would ask its user."""
    answers = {q["text"]: q["options"][0]["label"] for q in event.get("questions", [])}
    print(f"[{event['kind']}] {event['title']} -> {'yes' if yes else 'no'}")
    bridge.approve(event["approval_id"], "once" if yes else "deny", answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--angelia", default="angelia", help="the program")
    parser.add_argument("--session", default="host-python", help="the conversation's name")
    parser.add_argument("--yes", action="store_true", help="allow what the agent asks for")
    parser.add_argument("prompts", nargs="+")
    args = parser.parse_args()
    bridge = Bridge(args.angelia, "--native-stream", "--native-assistant-delta")
    status = "completed"
    for prompt in args.prompts:
        for event in bridge.run(args.session, prompt):
            kind = event["type"]
            if kind == "assistant_delta":
                print(event["text"], end="", flush=True)
            elif kind == "assistant_delta_end":
                print()
            elif kind == "tool_started":
                print(f"[tool] {event['title']}")
            elif kind == "approval_requested":
                decide(bridge, event, args.yes)
            elif kind == "final":
                status = event["status"]
                print(f"[{status}] {event['usage']['output_tokens']} tokens out")
    bridge.close()
    return 0 if status in ("completed", "partial") else 1


if __name__ == "__main__":
    sys.exit(main())
