// OpenAI's own TypeScript SDK: Responses.

import assert from "node:assert/strict";

import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { KEY, LONG, MODEL, PNG, URL, calls, equal, fillsSchema, main, words } from "./scenarios.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY, maxRetries: 0 });

const tools = [
  {
    type: "function",
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
    strict: true,
  },
];

const ask = (input, more = {}) => client.responses.create({ model: MODEL, input, ...more });

await main({
  async plain() {
    const answer = await ask("ECHO:hello there", { instructions: "Be terse." });
    equal(answer.output_text, "hello there");
    equal(answer.status, "completed");
    assert(answer.usage.input_tokens > answer.usage.input_tokens_details.cached_tokens);
  },

  async streamed() {
    let text = "";
    let last;
    for await (const event of await ask("WORDS:20", { stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event;
    }
    equal(text.trim().split(" "), words(20));
    equal(last.type, "response.completed");
    equal(last.response.output[0].content[0].text, text);
  },

  async streamHelper() {
    const stream = client.responses.stream({ model: MODEL, input: "WORDS:20" });
    let pieces = 0;
    stream.on("response.output_text.delta", () => (pieces += 1));
    const final = await stream.finalResponse();
    equal(final.output_text.trim().split(" "), words(20));
    assert(pieces > 1);
  },

  async conversation() {
    const first = await ask("ECHO:one");
    const second = await ask("ECHO:two", { previous_response_id: first.id });
    equal(second.output_text, "two");
    const input = [
      { role: "user", content: "ECHO:one" },
      ...first.output,
      { role: "user", content: "ECHO:two" },
      ...second.output,
      { role: "user", content: "ECHO:three" },
    ];
    equal((await ask(input)).output_text, "three");
  },

  async tools() {
    const wanted = [["get_weather", { city: "Athens" }], ["get_weather", { city: "Oslo" }]];
    const input = [{ role: "user", content: calls(wanted, "Both.") }];
    const stream = client.responses.stream({ model: MODEL, input, tools });
    const answer = await stream.finalResponse();
    const called = answer.output.filter((item) => item.type === "function_call");
    equal(called.map((call) => JSON.parse(call.arguments).city), ["Athens", "Oslo"]);
    const outputs = called.map(({ call_id }) => ({ type: "function_call_output", call_id, output: "ok" }));
    const last = await ask(outputs, { previous_response_id: answer.id, tools });
    equal(last.output_text, "Both.");
  },

  async image() {
    const content = [
      { type: "input_text", text: "ECHO:red" },
      { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "auto" },
    ];
    equal((await ask([{ role: "user", content }])).output_text, "red");
  },

  async schema() {
    const Person = z.object({ name: z.string(), age: z.number() });
    const parsed = await client.responses.parse({
      model: MODEL,
      input: fillsSchema({ name: "Ada", age: 36 }),
      text: { format: zodTextFormat(Person, "person") },
    });
    equal(parsed.output_parsed, { name: "Ada", age: 36 });
  },

  async errors() {
    await assert.rejects(ask("x", { model: "no-such-model" }), OpenAI.NotFoundError);
    await assert.rejects(ask("x", { background: true }), OpenAI.BadRequestError);
    await assert.rejects(ask("STATUS:400 ECHO:no way"), /no way/);
    await assert.rejects(ask("STATUS:400 ECHO:no way", { stream: true }), /no way/);
  },

  async cancel() {
    let id;
    for await (const event of await ask(LONG, { stream: true })) {
      if (event.type === "response.created") id = event.response.id;
      if (event.type !== "response.output_text.delta") continue;
      equal((await client.responses.cancel(id)).id, id);
      break;
    }
    const end = Date.now() + 60_000;
    let found;
    do {
      assert(Date.now() < end);
      found = await client.responses.retrieve(id);
    } while (found.status === "in_progress");
    equal(found.status, "cancelled");
  },
});
