"""LiteLLM, as it speaks to OpenAI: Chat Completions, and Responses."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from scenarios import KEY, LONG, MODEL, PERSON, PNG, URL, calls, equal, fills_schema, main, scenario

litellm.telemetry = False

SERVER = {
    "model": f"openai/{MODEL}",
    "api_base": f"{URL}/v1",
    "api_key": KEY,
    "num_retries": 0,
    "max_retries": 0,
}

FUNCTION = {
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def ask(content, **more):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return litellm.completion(**(SERVER | {"messages": messages} | more))


def respond(input, **more):
    return litellm.responses(**(SERVER | {"input": input} | more))


@scenario
def plain():
    answer = ask(
        [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "ECHO:hello"}]
    )
    equal(answer.choices[0].message.content, "hello")
    equal(answer.choices[0].finish_reason, "stop")
    assert answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0
    assert answer.usage.prompt_tokens_details.cached_tokens > 0


@scenario
def streamed():
    text = ""
    for chunk in ask("WORDS:20", stream=True):
        text += chunk.choices[0].delta.content or ""
    equal(text.split(), [f"w{i}" for i in range(20)])


@scenario
def conversation():
    messages = [{"role": "user", "content": "ECHO:one"}]
    messages.append(ask(messages).choices[0].message.model_dump())
    messages.append({"role": "user", "content": "ECHO:two"})
    equal(ask(messages).choices[0].message.content, "two")


@scenario
def tools():
    tools = [{"type": "function", "function": FUNCTION}]
    prompt = calls(("get_weather", {"city": "Athens"}), then="Sunny.")
    messages = [{"role": "user", "content": prompt}]
    message = ask(messages, tools=tools).choices[0].message
    call = message.tool_calls[0]
    equal(call.function.name, "get_weather")
    equal(json.loads(call.function.arguments), {"city": "Athens"})
    messages += [
        message.model_dump(),
        {"role": "tool", "tool_call_id": call.id, "content": "25 degrees"},
    ]
    equal(ask(messages, tools=tools).choices[0].message.content, "Sunny.")


@scenario
def image():
    url = {"url": f"data:image/png;base64,{PNG}"}
    content = [{"type": "text", "text": "ECHO:red"}, {"type": "image_url", "image_url": url}]
    equal(ask([{"role": "user", "content": content}]).choices[0].message.content, "red")


@scenario
def schema():
    form = {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON, "strict": True}}
    answer = ask(fills_schema({"name": "Ada", "age": 36}), response_format=form)
    equal(json.loads(answer.choices[0].message.content), {"name": "Ada", "age": 36})


@scenario
def responses():
    answer = respond("ECHO:hello")
    equal(answer.output[-1].content[0].text, "hello")
    text = ""
    for event in respond("WORDS:20", stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
    equal(text.split(), [f"w{i}" for i in range(20)])


@scenario
def responses_tools():
    tools = [{"type": "function", **FUNCTION}]
    prompt = calls(("get_weather", {"city": "Athens"}), then="Sunny.")
    items = [{"role": "user", "content": prompt}]
    answer = respond(items, tools=tools)
    items += [item.model_dump(exclude_none=True) for item in answer.output]
    call = answer.output[-1]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "warm"})
    answer = respond(items, tools=tools)
    equal(answer.output[-1].content[0].text, "Sunny.")


@scenario
def errors():
    try:
        ask("STATUS:400 ECHO:no way")
    except Exception as error:
        assert "no way" in str(error), error
    else:
        raise AssertionError("no error")
    try:
        ask("x", model="openai/no-such-model")
    except litellm.NotFoundError:
        return
    raise AssertionError("no error")


@scenario
def cancel():
    answer = ask(LONG, stream=True)
    for count, _ in enumerate(answer):
        if count == 3:
            break
    answer.completion_stream.close()


main()
