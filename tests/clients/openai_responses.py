"""OpenAI's own Python SDK: Responses."""

import json
import time

import openai
from pydantic import BaseModel

from scenarios import KEY, LONG, MODEL, PERSON, PNG, URL, calls, equal, fills_schema, main, scenario

client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def ask(input, **more):
    return client.responses.create(**({"model": MODEL, "input": input} | more))


@scenario
def plain():
    answer = ask("ECHO:hello there", instructions="You are terse.", metadata={"mine": "1"})
    equal((answer.output_text, answer.status, answer.model), ("hello there", "completed", MODEL))
    equal((answer.instructions, answer.metadata), ("You are terse.", {"mine": "1"}))
    usage = answer.usage
    equal(usage.total_tokens, usage.input_tokens + usage.output_tokens)
    assert 0 < usage.input_tokens_details.cached_tokens < usage.input_tokens
    equal(usage.output_tokens_details.reasoning_tokens, 0)


@scenario
def streamed():
    kinds, text, numbers = [], "", []
    for event in ask("WORDS:20", stream=True):
        if not kinds or kinds[-1] != event.type:
            kinds.append(event.type)
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            text += event.delta
    wanted = "created in_progress output_item.added content_part.added output_text.delta"
    wanted += " output_text.done content_part.done output_item.done completed"
    equal(kinds, [f"response.{kind}" for kind in wanted.split()])
    equal(numbers, list(range(len(numbers))))
    equal(text.split(), [f"w{i}" for i in range(20)])


@scenario
def stream_helper():
    with client.responses.stream(model=MODEL, input="WORDS:20") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    equal(final.output_text, "".join(deltas))


@scenario
def conversation_by_id():
    first = ask("ECHO:one")
    second = ask("ECHO:two", previous_response_id=first.id)
    equal((second.output_text, second.previous_response_id), ("two", first.id))
    third = ask([{"role": "user", "content": "ECHO:three"}], previous_response_id=second.id)
    equal(third.output_text, "three")


@scenario
def instructed_once():
    items = [
        {"role": "developer", "content": "Speak like a pirate."},
        {"role": "user", "content": "ECHO:one"},
    ]
    first = ask(items)
    equal(ask("ECHO:two", previous_response_id=first.id).output_text, "two")


@scenario
def conversation_by_items():
    items = [{"role": "user", "content": "ECHO:one"}]
    items += ask(items, store=False).output
    items.append({"role": "user", "content": [{"type": "input_text", "text": "ECHO:two"}]})
    second = ask(items, store=False)
    items.append({"role": "assistant", "content": second.output_text})
    items.append({"role": "user", "content": "ECHO:three"})
    equal(ask(items, store=False).output_text, "three")


@scenario
def thoughts():
    answer = ask("THINK ECHO:yes", reasoning={"effort": "low", "summary": "auto"})
    equal(answer.output_text, "yes")
    items = [{"role": "user", "content": "THINK ECHO:yes"}, *answer.output]
    include = ["reasoning.encrypted_content"]
    again = ask([*items, {"role": "user", "content": "ECHO:more"}], include=include)
    equal(again.output_text, "more")


@scenario
def tools():
    prompt = calls(("get_weather", {"city": "Athens"}), then="Sunny.")
    answer = ask(prompt, tools=[WEATHER])
    call = answer.output[-1]
    equal((answer.status, call.type, call.name), ("completed", "function_call", "get_weather"))
    equal(json.loads(call.arguments), {"city": "Athens"})
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "25 degrees"}
    answer = ask([result], previous_response_id=answer.id, tools=[WEATHER])
    equal(answer.output_text, "Sunny.")


@scenario
def parallel_tools_streamed():
    prompt = calls(
        ("get_weather", {"city": "Athens"}), ("get_weather", {"city": "Oslo"}), then="Both."
    )
    items = [{"role": "user", "content": prompt}]
    with client.responses.stream(model=MODEL, input=items, tools=[WEATHER]) as stream:
        done = "response.function_call_arguments.done"
        cities = [json.loads(event.arguments)["city"] for event in stream if event.type == done]
        answer = stream.get_final_response()
    equal(cities, ["Athens", "Oslo"])
    for item in answer.output:
        items.append(item.model_dump(exclude={"parsed_arguments"}, exclude_none=True))
    for call in [item for item in answer.output if item.type == "function_call"]:
        output = [{"type": "input_text", "text": "ok"}]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    with client.responses.stream(model=MODEL, input=items, tools=[WEATHER]) as stream:
        equal(stream.get_final_response().output_text, "Both.")


@scenario
def image():
    url = f"data:image/png;base64,{PNG}"
    content = [
        {"type": "input_image", "image_url": url, "detail": "auto"},
        {"type": "input_text", "text": "ECHO:red"},
    ]
    equal(ask([{"role": "user", "content": content}]).output_text, "red")


@scenario
def schema():
    form = {"type": "json_schema", "name": "p", "schema": PERSON, "strict": True}
    answer = ask(fills_schema({"name": "Ada", "age": 36}), text={"format": form})
    equal(json.loads(answer.output_text), {"name": "Ada", "age": 36})

    class Person(BaseModel):
        name: str
        age: int

    prompt = fills_schema({"name": "Bob", "age": 7})
    parsed = client.responses.parse(model=MODEL, input=prompt, text_format=Person)
    equal(parsed.output_parsed, Person(name="Bob", age=7))


@scenario
def found_again():
    answer = ask("ECHO:hello")
    again = client.responses.retrieve(answer.id)
    equal((again.id, again.status, again.output_text), (answer.id, "completed", "hello"))
    equal(again.output[0].id, answer.output[0].id)
    try:
        client.responses.retrieve("resp_00000000000000000000000000000000")
    except openai.NotFoundError:
        return
    raise AssertionError("found what never was")


@scenario
def errors():
    def fails(kind, input="ECHO:x", **more):
        try:
            ask(input, **more)
        except kind as error:
            assert error.body["message"], error.body
            return error
        raise AssertionError(f"no {kind.__name__}")

    equal(fails(openai.NotFoundError, model="no-such-model").code, "model_not_found")
    equal(fails(openai.BadRequestError, background=True).param, "background")
    for stream in [False, True]:
        failed = fails(openai.APIStatusError, "STATUS:400 ECHO:no way", stream=stream)
        assert "no way" in str(failed), failed


@scenario
def cancel():
    id = None
    for event in ask(LONG, stream=True):
        if event.type == "response.created":
            id = event.response.id
        if event.type == "response.output_text.delta":
            cancelled = client.responses.cancel(id)
            equal((cancelled.id, cancelled.status), (id, "cancelled"))
            break
    deadline = time.monotonic() + 60
    while client.responses.retrieve(id).status == "in_progress":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    equal(client.responses.retrieve(id).status, "cancelled")


main()
