"""Anthropic's own Python SDK."""

import json

import anthropic
from pydantic import BaseModel

from scenarios import KEY, LONG, MODEL, PERSON, PNG, URL, calls, equal, fills_schema, main, scenario

client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)

WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def ask(content, **more):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return client.messages.create(model=MODEL, max_tokens=1024, messages=messages, **more)


@scenario
def plain():
    message = ask("ECHO:hello there", system="You are terse.")
    equal(message.content[0].text, "hello there")
    equal((message.stop_reason, message.role, message.model), ("end_turn", "assistant", MODEL))
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0
    assert message.usage.cache_read_input_tokens > 0


@scenario
def streamed():
    with client.messages.stream(
        model=MODEL, max_tokens=1024, messages=[{"role": "user", "content": "WORDS:20"}]
    ) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()
    assert len(pieces) > 1
    equal("".join(pieces).split(), [f"w{i}" for i in range(20)])
    equal(message.content[0].text, "".join(pieces))
    assert message.usage.output_tokens > 0 and message.usage.input_tokens > 0


@scenario
def raw_events():
    kinds = []
    for event in client.messages.create(
        model=MODEL, max_tokens=1024, stream=True, messages=[{"role": "user", "content": "ECHO:x"}]
    ):
        if not kinds or kinds[-1] != event.type:
            kinds.append(event.type)
    wanted = "message_start content_block_start content_block_delta content_block_stop"
    equal(kinds, [*wanted.split(), "message_delta", "message_stop"])


@scenario
def conversation():
    first = ask("ECHO:one")
    history = [
        {"role": "user", "content": "ECHO:one"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": "ECHO:two"},
    ]
    second = ask(history)
    equal(second.content[0].text, "two")
    history += [
        {"role": "assistant", "content": second.content[0].text},
        {"role": "user", "content": [{"type": "text", "text": "ECHO:three"}]},
    ]
    equal(ask(history).content[0].text, "three")


@scenario
def thoughts():
    message = ask("THINK ECHO:yes", thinking={"type": "enabled", "budget_tokens": 1024})
    equal([block.type for block in message.content], ["thinking", "text"])
    assert message.content[0].thinking and message.content[0].signature
    silent = ask("THINK ECHO:yes")
    equal([block.type for block in silent.content], ["text"])
    again = ask(
        [
            {"role": "user", "content": "THINK ECHO:yes"},
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": "ECHO:more"},
        ]
    )
    equal(again.content[0].text, "more")


@scenario
def tools():
    prompt = calls(("get_weather", {"city": "Athens"}), then="Sunny.")
    message = ask(prompt, tools=[WEATHER])
    equal(message.stop_reason, "tool_use")
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0
    call = message.content[-1]
    equal((call.type, call.name, call.input), ("tool_use", "get_weather", {"city": "Athens"}))
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "25 degrees"}
    history = [
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [result]},
    ]
    message = ask(history, tools=[WEATHER])
    equal((message.stop_reason, message.content[0].text), ("end_turn", "Sunny."))


@scenario
def parallel_tools_streamed():
    prompt = calls(
        ("get_weather", {"city": "Athens"}), ("get_weather", {"city": "Oslo"}), then="Both."
    )
    messages = [{"role": "user", "content": prompt}]

    def stream():
        with client.messages.stream(
            model=MODEL, max_tokens=1024, messages=messages, tools=[WEATHER]
        ) as stream:
            return stream.get_final_message()

    message = stream()
    used = [block for block in message.content if block.type == "tool_use"]
    equal([block.input["city"] for block in used], ["Athens", "Oslo"])
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": "ok"}]}
        for block in used
    ]
    messages += [
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": results},
    ]
    equal(stream().content[0].text, "Both.")


@scenario
def tool_runner():
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: Its name.
        """
        return f"sunny in {city}"

    prompt = calls(("get_weather", {"city": "Athens"}), then="Run.")
    runner = client.beta.messages.tool_runner(
        model=MODEL,
        max_tokens=1024,
        tools=[get_weather],
        messages=[{"role": "user", "content": prompt}],
    )
    equal(runner.until_done().content[0].text, "Run.")


@scenario
def image():
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    message = ask(
        [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": source},
                    {"type": "text", "text": "ECHO:red"},
                ],
            }
        ]
    )
    equal(message.content[0].text, "red")


@scenario
def schema():
    prompt = fills_schema({"name": "Ada", "age": 36})
    message = ask(prompt, output_config={"format": {"type": "json_schema", "schema": PERSON}})
    equal(json.loads(message.content[-1].text), {"name": "Ada", "age": 36})

    class Person(BaseModel):
        name: str
        age: int

    parsed = client.messages.parse(
        model=MODEL,
        max_tokens=1024,
        messages=[{"role": "user", "content": fills_schema({"name": "Bob", "age": 7})}],
        output_format=Person,
    )
    equal(parsed.parsed_output, Person(name="Bob", age=7))


@scenario
def errors():
    def fails(kind, **more):
        arguments = {
            "model": MODEL,
            "max_tokens": 1024,
            "messages": [{"role": "user", "content": "ECHO:x"}],
        }
        try:
            client.messages.create(**(arguments | more))
        except kind as error:
            assert error.body["error"]["message"], error.body
            return error
        raise AssertionError(f"no {kind.__name__}")

    fails(anthropic.NotFoundError, model="no-such-model")
    url = {"type": "url", "url": "https://example.org/a.png"}
    remote = [{"role": "user", "content": [{"type": "image", "source": url}]}]
    fails(anthropic.BadRequestError, messages=remote)
    failed = fails(
        anthropic.APIStatusError, messages=[{"role": "user", "content": "STATUS:400 ECHO:no way"}]
    )
    assert "no way" in str(failed), failed
    stranger = anthropic.Anthropic(base_url=URL, api_key="wrong", max_retries=0)
    try:
        stranger.messages.create(
            model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "x"}]
        )
    except anthropic.AuthenticationError:
        return
    raise AssertionError("a wrong key was accepted")


@scenario
def count_and_models():
    counted = client.messages.count_tokens(
        model=MODEL, messages=[{"role": "user", "content": "word " * 100}], tools=[WEATHER]
    )
    assert 100 < counted.input_tokens < 400, counted
    models = [model.id for model in client.models.list()]
    assert "claude/sonnet" in models, models


@scenario
def cancel():
    with client.messages.stream(
        model=MODEL, max_tokens=1024, messages=[{"role": "user", "content": LONG}]
    ) as stream:
        for count, _ in enumerate(stream.text_stream):
            if count == 3:
                break


main()
