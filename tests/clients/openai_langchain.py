"""LangChain, as it speaks to OpenAI: Chat Completions, and Responses."""

import openai
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from scenarios import KEY, LONG, MODEL, PNG, URL, calls, equal, fills_schema, main, scenario

SERVER = {"base_url": f"{URL}/v1", "api_key": KEY, "max_retries": 0}

WAYS = {"chat": {}, "responses": {"use_responses_api": True}}


def ask_with(way, model=MODEL):
    return ChatOpenAI(model=model, **SERVER, **WAYS[way])


def each_way(function):
    """A scenario for each: `chat_NAME`, `responses_NAME`."""
    for way in WAYS:

        def run(way=way):
            function(way)

        run.__name__ = f"{way}_{function.__name__}"
        scenario(run)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@each_way
def plain(way):
    answer = ask_with(way).invoke([SystemMessage("Be terse."), HumanMessage("ECHO:hello")])
    equal(answer.text, "hello")
    assert answer.usage_metadata["input_tokens"] > 0
    assert answer.usage_metadata["output_tokens"] > 0
    assert answer.usage_metadata["input_token_details"]["cache_read"] > 0


@each_way
def streamed(way):
    chunks = list(ask_with(way).stream("WORDS:20"))
    assert len(chunks) > 2
    text = "".join(chunk.text for chunk in chunks)
    equal(text.split(), [f"w{i}" for i in range(20)])


@each_way
def conversation(way):
    model = ask_with(way)
    messages = [HumanMessage("ECHO:one")]
    first = model.invoke(messages)
    messages += [first, HumanMessage("ECHO:two")]
    equal(model.invoke(messages).text, "two")
    if way == "responses":
        previous = first.response_metadata["id"]
        equal(model.invoke("ECHO:three", previous_response_id=previous).text, "three")


@each_way
def tools(way):
    equipped = ask_with(way).bind_tools([get_weather])
    prompt = calls(
        ("get_weather", {"city": "Athens"}), ("get_weather", {"city": "Oslo"}), then="Sunny."
    )
    messages = [HumanMessage(prompt)]
    answer = equipped.invoke(messages)
    messages.append(answer)
    equal([call["args"] for call in answer.tool_calls], [{"city": "Athens"}, {"city": "Oslo"}])
    for call in answer.tool_calls:
        result = get_weather.invoke(call["args"])
        messages.append(ToolMessage(result, tool_call_id=call["id"]))
    equal(equipped.invoke(messages).text, "Sunny.")


@each_way
def image(way):
    content = [
        {"type": "text", "text": "ECHO:red"},
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
    ]
    equal(ask_with(way).invoke([HumanMessage(content=content)]).text, "red")


@each_way
def schema(way):
    class Person(BaseModel):
        """Somebody."""

        name: str
        age: int

    native = ask_with(way).with_structured_output(Person, method="json_schema")
    equal(native.invoke(fills_schema({"name": "Ada", "age": 36})), Person(name="Ada", age=36))
    called = ask_with(way).with_structured_output(Person, method="function_calling")
    prompt = calls(("Person", {"name": "Bob", "age": 7}), then="done")
    equal(called.invoke(prompt), Person(name="Bob", age=7))


@each_way
def errors(way):
    try:
        ask_with(way, "no-such-model").invoke("x")
    except openai.NotFoundError:
        return
    raise AssertionError("no error")


@each_way
def cancel(way):
    stream = ask_with(way).stream(LONG)
    for count, _ in enumerate(stream):
        if count == 3:
            break
    stream.close()


main()
