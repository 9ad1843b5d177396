"""What the scripts of the Python clients share: where to go, what to say, how to report.

A script defines functions and marks them with `@scenario`; `main()` runs them in order and prints
one line for each that passed; names on the command line choose among them. What goes wrong is an ordinary exception, and ends the script.
The model is scripted by the prompt itself: `ECHO:text` makes it answer `text`.
"""

import json
import os
import sys

URL = os.environ["ANGELIA_URL"]
"""Without a path; clients that want the version in it append `/v1`."""
KEY = os.environ["ANGELIA_KEY"]
MODEL = os.environ["ANGELIA_MODEL"]

PNG = os.environ["ANGELIA_PNG"]
"""A small picture, in base64."""

TOOLS = os.environ.get("ANGELIA_TOOLS", "mcp__client__")
"""What the agent puts before the names of a caller's tools."""

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}

LONG = "WORDS:2000:20"
"""An answer of forty seconds."""

_scenarios = []


def scenario(function):
    _scenarios.append(function)
    return function


def calls(*calls, then):
    """A prompt: the model calls these tools, each `(name, input)`, and afterwards says `then`."""
    calls = [{"name": TOOLS + name, "input": input} for name, input in calls]
    return f"TOOL:{json.dumps(calls)}:END ECHO:{then}"


def fills_schema(value):
    """A prompt: the model gives this value where an answer of a given form is demanded."""
    return f'TOOL:{json.dumps({"name": "StructuredOutput", "input": value})}:END ECHO:done'


def equal(found, wanted):
    assert found == wanted, f"{found!r} is not {wanted!r}"


def main():
    chosen = sys.argv[1:]
    for function in _scenarios:
        if chosen and function.__name__ not in chosen:
            continue
        function()
        print(f"{function.__name__} ok", flush=True)
