"""Simon Willison's `llm`, with the models of its own configuration file."""

import base64
import json
import pathlib
import subprocess
import sys

from scenarios import KEY, LONG, MODEL, PERSON, PNG, URL, calls, equal, fills_schema, main, scenario

HOME = pathlib.Path.cwd() / "llm"
HOME.mkdir(exist_ok=True)

(HOME / "extra-openai-models.yaml").write_text(f"""
- model_id: ours
  model_name: {MODEL}
  api_base: {URL}/v1
  api_key_name: angelia
  vision: true
  supports_tools: true
  supports_schema: true
- model_id: missing
  model_name: no-such-model
  api_base: {URL}/v1
  api_key_name: angelia
""")
(HOME / "keys.json").write_text(json.dumps({"angelia": KEY}))

COMMAND = [str(pathlib.Path(sys.executable).parent / "llm")]
ENVIRONMENT = {"LLM_USER_PATH": str(HOME), "HOME": str(HOME), "PATH": "/bin"}


def start(*arguments):
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments):
    process = start(*arguments)
    out, errors = process.communicate(timeout=120)
    return process.returncode, out.strip(), errors


def says(*arguments):
    code, out, errors = run(*arguments)
    equal((code, errors), (0, ""))
    return out


@scenario
def plain():
    equal(says("-m", "ours", "--no-stream", "-s", "Be terse.", "ECHO:hello"), "hello")


@scenario
def streamed():
    equal(says("-m", "ours", "WORDS:20").split(), [f"w{i}" for i in range(20)])


@scenario
def conversation():
    equal(says("-m", "ours", "ECHO:one"), "one")
    equal(says("-c", "ECHO:two"), "two")


@scenario
def tools():
    function = 'def get_weather(city: str) -> str:\n    "The weather"\n    return "sunny"\n'
    prompt = calls(("get_weather", {"city": "Athens"}), then="Sunny.")
    out = says("-m", "ours", "--functions", function, prompt)
    assert out.endswith("Sunny."), out


@scenario
def image():
    picture = HOME / "red.png"
    picture.write_bytes(base64.b64decode(PNG))
    equal(says("-m", "ours", "-a", str(picture), "ECHO:red"), "red")


@scenario
def schema():
    prompt = fills_schema({"name": "Ada", "age": 36})
    out = says("-m", "ours", "--no-stream", "--schema", json.dumps(PERSON), prompt)
    equal(json.loads(out), {"name": "Ada", "age": 36})


@scenario
def errors():
    code, out, errors = run("-m", "missing", "x")
    assert code != 0 and "no-such-model" in errors, (code, out, errors)


@scenario
def cancel():
    process = start("-m", "ours", LONG)
    process.stdout.read(10)
    process.kill()
    process.wait()


main()
