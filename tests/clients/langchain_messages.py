"""LangChain, as it speaks to Anthropic."""

import anthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from scenarios import KEY, LONG, MODEL, PNG, URL, calls, equal, fills_schema, main, scenario

model = ChatAnthropic(model=MODEL, base_url=URL, api_key=KEY, max_retries=0)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@scenario
def plain():
    answer = model.invoke([SystemMessage("Be terse."), HumanMessage("ECHO:hello")])
    equal(answer.text, "hello")
    assert answer.usage_metadata["input_tokens"] > 0
    assert answer.usage_metadata["output_tokens"] > 0


@scenario
def streamed():
    chunks = list(model.stream("WORDS:20"))
    assert len(chunks) > 2
    text = "".join(chunk.text for chunk in chunks)
    equal(text.split(), [f"w{i}" for i in range(20)])


@scenario
def conversation():
    messages = [HumanMessage("ECHO:one")]
    messages.append(model.invoke(messages))
    messages.append(HumanMessage("ECHO:two"))
    equal(model.invoke(messages).text, "two")


@scenario
def tools():
    equipped = model.bind_tools([get_weather])
    prompt = calls(("get_weather", {"city": "Athens"}), then="Sunny.")
    messages = [HumanMessage(prompt)]
    answer = equipped.invoke(messages)
    call = answer.tool_calls[0]
    equal((call["name"], call["args"]), ("get_weather", {"city": "Athens"}))
    messages += [answer, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    equal(equipped.invoke(messages).text, "Sunny.")


@scenario
def image():
    content = [
        {"type": "text", "text": "ECHO:red"},
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
    ]
    equal(model.invoke([HumanMessage(content=content)]).text, "red")


@scenario
def schema():
    class Person(BaseModel):
        """Somebody."""

        name: str
        age: int

    native = model.with_structured_output(Person, method="json_schema")
    equal(native.invoke(fills_schema({"name": "Ada", "age": 36})), Person(name="Ada", age=36))
    called = model.with_structured_output(Person, method="function_calling")
    prompt = calls(("Person", {"name": "Bob", "age": 7}), then="done")
    equal(called.invoke(prompt), Person(name="Bob", age=7))


@scenario
def errors():
    stranger = ChatAnthropic(model="no-such-model", base_url=URL, api_key=KEY, max_retries=0)
    try:
        stranger.invoke("x")
    except anthropic.NotFoundError:
        return
    raise AssertionError("no error")


@scenario
def cancel():
    for count, _ in enumerate(model.stream(LONG)):
        if count == 3:
            break


main()
