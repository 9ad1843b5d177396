"""LiteLLM, as it speaks to Anthropic."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from scenarios import KEY, LONG, MODEL, PERSON, PNG, URL, calls, equal, main, scenario

litellm.telemetry = False

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def ask(content, **more):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return litellm.completion(
        model=f"anthropic/{MODEL}",
        api_base=URL,
        api_key=KEY,
        messages=messages,
        num_retries=0,
        max_retries=0,
        **more,
    )


@scenario
def plain():
    answer = ask(
        [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "ECHO:hello"}]
    )
    equal(answer.choices[0].message.content, "hello")
    equal(answer.choices[0].finish_reason, "stop")
    assert answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0


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
    prompt = calls(("get_weather", {"city": "Athens"}), then="Sunny.")
    messages = [{"role": "user", "content": prompt}]
    message = ask(messages, tools=[WEATHER]).choices[0].message
    call = message.tool_calls[0]
    equal(call.function.name, "get_weather")
    equal(json.loads(call.function.arguments), {"city": "Athens"})
    messages += [
        message.model_dump(),
        {"role": "tool", "tool_call_id": call.id, "content": "25 degrees"},
    ]
    equal(ask(messages, tools=[WEATHER]).choices[0].message.content, "Sunny.")


@scenario
def image():
    url = {"url": f"data:image/png;base64,{PNG}"}
    content = [{"type": "text", "text": "ECHO:red"}, {"type": "image_url", "image_url": url}]
    equal(ask([{"role": "user", "content": content}]).choices[0].message.content, "red")


@scenario
def schema():
    """For models it does not know, LiteLLM demands a call of a tool of its own."""
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    prompt = calls(("json_tool_call", {"name": "Ada", "age": 36}), then="done")
    answer = ask(prompt, response_format=form).choices[0].message
    equal(json.loads(answer.content), {"name": "Ada", "age": 36})


@scenario
def errors():
    try:
        ask("STATUS:400 ECHO:no way")
    except Exception as error:
        assert "no way" in str(error), error
    else:
        raise AssertionError("no error")
    try:
        litellm.completion(
            model="anthropic/no-such-model",
            api_base=URL,
            api_key=KEY,
            messages=[{"role": "user", "content": "x"}],
            num_retries=0,
            max_retries=0,
        )
    except litellm.NotFoundError:
        return
    raise AssertionError("no error")


@scenario
def cancel():
    for count, _ in enumerate(ask(LONG, stream=True)):
        if count == 3:
            break


main()
