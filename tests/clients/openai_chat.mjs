// OpenAI's own TypeScript SDK: Chat Completions.

import assert from "node:assert/strict";

import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { KEY, LONG, MODEL, PERSON, PNG, URL, calls, equal, fillsSchema, main, words } from "./scenarios.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY, maxRetries: 0 });

const WEATHER = {
  name: "get_weather",
  description: "The weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

function request(content, more = {}) {
  const messages = Array.isArray(content) ? content : [{ role: "user", content }];
  return { model: MODEL, messages, ...more };
}

const ask = (content, more) => client.chat.completions.create(request(content, more));

await main({
  async plain() {
    const answer = await ask([
      { role: "developer", content: "Be terse." },
      { role: "user", content: "ECHO:hello there" },
    ]);
    equal(answer.choices[0].message.content, "hello there");
    equal(answer.choices[0].finish_reason, "stop");
    assert(answer.usage.prompt_tokens > answer.usage.prompt_tokens_details.cached_tokens);
  },

  async streamed() {
    const stream = await ask("WORDS:20", { stream: true, stream_options: { include_usage: true } });
    let text = "";
    let usage;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    equal(text.trim().split(" "), words(20));
    assert(usage.completion_tokens > 0);
  },

  async streamHelper() {
    let pieces = 0;
    const stream = client.chat.completions.stream(request("WORDS:20")).on("content", () => (pieces += 1));
    equal((await stream.finalContent()).trim().split(" "), words(20));
    assert(pieces > 1);
  },

  async conversation() {
    const messages = [{ role: "user", content: "ECHO:one" }];
    messages.push((await ask(messages)).choices[0].message, { role: "user", content: "ECHO:two" });
    equal((await ask(messages)).choices[0].message.content, "two");
  },

  async tools() {
    const content = calls([["get_weather", { city: "Athens" }]], "Sunny.");
    const runner = client.chat.completions.runTools({
      ...request(content),
      stream: true,
      tools: [
        {
          type: "function",
          function: { ...WEATHER, parse: JSON.parse, function: ({ city }) => `sunny in ${city}` },
        },
      ],
    });
    equal(await runner.finalContent(), "Sunny.");
    const results = runner.messages.filter((message) => message.role === "tool");
    equal(results.map((message) => message.content), ["sunny in Athens"]);
  },

  async parallelTools() {
    const wanted = [["get_weather", { city: "Athens" }], ["get_weather", { city: "Oslo" }]];
    const messages = [{ role: "user", content: calls(wanted, "Both.") }];
    const tools = [{ type: "function", function: WEATHER }];
    const answer = await ask(messages, { tools });
    const { message, finish_reason } = answer.choices[0];
    equal(finish_reason, "tool_calls");
    equal(message.tool_calls.map((call) => JSON.parse(call.function.arguments).city), ["Athens", "Oslo"]);
    messages.push(message);
    for (const call of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: call.id, content: "ok" });
    }
    equal((await ask(messages, { tools })).choices[0].message.content, "Both.");
  },

  async image() {
    const content = [
      { type: "text", text: "ECHO:red" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
    ];
    equal((await ask([{ role: "user", content }])).choices[0].message.content, "red");
  },

  async schema() {
    const json_schema = { name: "p", schema: PERSON, strict: true };
    const response_format = { type: "json_schema", json_schema };
    const answer = await ask(fillsSchema({ name: "Ada", age: 36 }), { response_format });
    equal(JSON.parse(answer.choices[0].message.content), { name: "Ada", age: 36 });

    const Person = z.object({ name: z.string(), age: z.number() });
    const form = { response_format: zodResponseFormat(Person, "person") };
    const parsed = await client.chat.completions.parse(request(fillsSchema({ name: "Bob", age: 7 }), form));
    equal(parsed.choices[0].message.parsed, { name: "Bob", age: 7 });
  },

  async errors() {
    await assert.rejects(ask("x", { model: "no-such-model" }), OpenAI.NotFoundError);
    await assert.rejects(ask("x", { n: 2 }), OpenAI.BadRequestError);
    await assert.rejects(ask("STATUS:400 ECHO:no way"), /no way/);
    await assert.rejects(ask("STATUS:400 ECHO:no way", { stream: true }), /no way/);
  },

  async cancel() {
    const stream = await ask(LONG, { stream: true });
    let count = 0;
    for await (const _ of stream) {
      if (++count === 3) break;
    }
  },
});
