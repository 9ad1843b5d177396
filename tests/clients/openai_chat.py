"""OpenAI's own Python SDK: Chat Completions."""

import json

import openai
from pydantic import BaseModel

from scenarios import KEY, LONG, MODEL, PERSON, PNG, URL, calls, equal, fills_schema, main, scenario

client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def request(content, more):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return {"model": MODEL, "messages": messages} | more


def ask(content, **more):
    return client.chat.completions.create(**request(content, more))


@scenario
def plain():
    answer = ask(
        [
            {"role": "system", "content": "You are terse."},
            {"role": "user", "content": "ECHO:hello there"},
        ],
        max_tokens=128000,
        temperature=0.5,
        stop=["never"],
    )
    choice = answer.choices[0]
    equal((choice.message.content, choice.finish_reason), ("hello there", "stop"))
    equal((answer.object, answer.model), ("chat.completion", MODEL))
    usage = answer.usage
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
    assert 0 < usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens
    assert usage.completion_tokens > 0 and usage.completion_tokens_details.reasoning_tokens == 0


@scenario
def streamed():
    text, usage, reasons = "", None, []
    for chunk in ask("WORDS:20", stream=True, stream_options={"include_usage": True}):
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
            reasons += [chunk.choices[0].finish_reason]
        usage = chunk.usage or usage
    equal(text.split(), [f"w{i}" for i in range(20)])
    equal(reasons[-1], "stop")
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0
    for chunk in ask("ECHO:x", stream=True):
        assert chunk.choices and chunk.usage is None


@scenario
def stream_helper():
    with client.chat.completions.stream(**request("WORDS:20", {})) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert len(deltas) > 1
    equal("".join(deltas), final.choices[0].message.content)


@scenario
def conversation():
    messages = [{"role": "user", "content": "ECHO:one"}]
    messages.append(ask(messages).choices[0].message)
    messages.append({"role": "user", "content": [{"type": "text", "text": "ECHO:two"}]})
    second = ask(messages).choices[0].message
    equal(second.content, "two")
    messages.append({"role": "assistant", "content": [{"type": "text", "text": second.content}]})
    messages.append({"role": "user", "content": "ECHO:three"})
    equal(ask(messages).choices[0].message.content, "three")


@scenario
def tools():
    messages = [
        {"role": "user", "content": calls(("get_weather", {"city": "Athens"}), then="Sunny.")}
    ]
    choice = ask(messages, tools=[WEATHER]).choices[0]
    equal(choice.finish_reason, "tool_calls")
    (call,) = choice.message.tool_calls
    equal((call.type, call.function.name), ("function", "get_weather"))
    equal(json.loads(call.function.arguments), {"city": "Athens"})
    messages += [
        choice.message,
        {"role": "tool", "tool_call_id": call.id, "content": "25 degrees"},
    ]
    choice = ask(messages, tools=[WEATHER]).choices[0]
    equal((choice.message.content, choice.finish_reason), ("Sunny.", "stop"))


@scenario
def parallel_tools_streamed():
    prompt = calls(
        ("get_weather", {"city": "Athens"}), ("get_weather", {"city": "Oslo"}), then="Both."
    )
    messages = [{"role": "user", "content": prompt}]
    with client.chat.completions.stream(**request(messages, {"tools": [WEATHER]})) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        message = stream.get_final_completion().choices[0].message
    equal([json.loads(event.arguments)["city"] for event in done], ["Athens", "Oslo"])
    messages.append(message)
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "ok"})
    with client.chat.completions.stream(**request(messages, {"tools": [WEATHER]})) as stream:
        equal(stream.get_final_completion().choices[0].message.content, "Both.")


@scenario
def image():
    url = {"url": f"data:image/png;base64,{PNG}"}
    content = [{"type": "image_url", "image_url": url}, {"type": "text", "text": "ECHO:red"}]
    equal(ask([{"role": "user", "content": content}]).choices[0].message.content, "red")


@scenario
def schema():
    form = {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON, "strict": True}}
    answer = ask(fills_schema({"name": "Ada", "age": 36}), response_format=form)
    equal(json.loads(answer.choices[0].message.content), {"name": "Ada", "age": 36})

    class Person(BaseModel):
        name: str
        age: int

    prompt = fills_schema({"name": "Bob", "age": 7})
    parsed = client.chat.completions.parse(**request(prompt, {"response_format": Person}))
    equal(parsed.choices[0].message.parsed, Person(name="Bob", age=7))


@scenario
def errors():
    def fails(kind, content="ECHO:x", **more):
        try:
            ask(content, **more)
        except kind as error:
            assert error.body["message"], error.body
            return error
        raise AssertionError(f"no {kind.__name__}")

    missing = fails(openai.NotFoundError, model="no-such-model")
    equal(missing.code, "model_not_found")
    several = fails(openai.BadRequestError, n=2)
    equal(several.param, "n")
    remote = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    fails(openai.BadRequestError, [{"role": "user", "content": [remote]}])
    for stream in [False, True]:
        failed = fails(openai.APIStatusError, "STATUS:400 ECHO:no way", stream=stream)
        assert "no way" in str(failed), failed
    stranger = openai.OpenAI(base_url=f"{URL}/v1", api_key="wrong", max_retries=0)
    try:
        stranger.chat.completions.create(**request("x", {}))
    except openai.AuthenticationError:
        return
    raise AssertionError("a wrong key was accepted")


@scenario
def models():
    listed = [model.id for model in client.models.list()]
    assert "claude/sonnet" in listed, listed


@scenario
def cancel():
    with ask(LONG, stream=True) as stream:
        for count, _ in enumerate(stream):
            if count == 3:
                break


main()
