// Anthropic's own TypeScript SDK.

import assert from "node:assert/strict";

import Anthropic from "@anthropic-ai/sdk";

import { KEY, LONG, MODEL, PERSON, PNG, URL, calls, equal, fillsSchema, main, words } from "./scenarios.mjs";

const client = new Anthropic({ baseURL: URL, apiKey: KEY, maxRetries: 0 });

const WEATHER = {
  name: "get_weather",
  description: "The weather of a city",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

function request(content, more = {}) {
  const messages = Array.isArray(content) ? content : [{ role: "user", content }];
  return { model: MODEL, max_tokens: 1024, messages, ...more };
}

const ask = (content, more) => client.messages.create(request(content, more));

await main({
  async plain() {
    const message = await ask("ECHO:hello there", { system: "You are terse." });
    equal(message.content[0].text, "hello there");
    equal(message.stop_reason, "end_turn");
    assert(message.usage.input_tokens > 0 && message.usage.output_tokens > 0);
  },

  async streamed() {
    let pieces = 0;
    const stream = client.messages.stream(request("WORDS:20")).on("text", () => (pieces += 1));
    const text = await stream.finalText();
    equal(text.trim().split(" "), words(20));
    assert(pieces > 1);
    const message = await stream.finalMessage();
    assert(message.usage.output_tokens > 0 && message.usage.input_tokens > 0);
  },

  async conversation() {
    const cut = await ask("ECHO:this much and no more", { stop_sequences: [" and"] });
    equal([cut.content[0].text, cut.stop_sequence], ["this much", " and"]);
    const first = await ask("ECHO:one");
    const second = await ask([
      { role: "user", content: "ECHO:one" },
      { role: "assistant", content: first.content },
      { role: "user", content: "ECHO:two" },
    ]);
    equal(second.content[0].text, "two");
  },

  async tools() {
    const prompt = calls([["get_weather", { city: "Athens" }]], "Sunny.");
    const stream = client.messages.stream(request(prompt, { tools: [WEATHER] }));
    const message = await stream.finalMessage();
    equal(message.stop_reason, "tool_use");
    const call = message.content.at(-1);
    equal([call.name, call.input], ["get_weather", { city: "Athens" }]);
    const result = { type: "tool_result", tool_use_id: call.id, content: "25 degrees" };
    const answer = await ask(
      [
        { role: "user", content: prompt },
        { role: "assistant", content: message.content },
        { role: "user", content: [result] },
      ],
      { tools: [WEATHER] },
    );
    equal(answer.content[0].text, "Sunny.");
  },

  async image() {
    const source = { type: "base64", media_type: "image/png", data: PNG };
    const content = [{ type: "image", source }, { type: "text", text: "ECHO:red" }];
    equal((await ask([{ role: "user", content }])).content[0].text, "red");
  },

  async schema() {
    const format = { type: "json_schema", schema: PERSON };
    const person = { name: "Ada", age: 36 };
    const message = await ask(fillsSchema(person), { output_config: { format } });
    equal(JSON.parse(message.content.at(-1).text), person);
  },

  async errors() {
    await assert.rejects(ask("ECHO:x", { model: "no-such-model" }), Anthropic.NotFoundError);
    const source = { type: "url", url: "https://example.org/a.png" };
    const remote = [{ role: "user", content: [{ type: "image", source }] }];
    await assert.rejects(ask(remote), Anthropic.BadRequestError);
    await assert.rejects(ask("STATUS:400 ECHO:no way"), /no way/);
    const stranger = new Anthropic({ baseURL: URL, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.messages.create(request("x")), Anthropic.AuthenticationError);
  },

  async countAndModels() {
    const counted = await client.messages.countTokens({
      model: MODEL,
      messages: [{ role: "user", content: "word ".repeat(100) }],
    });
    assert(counted.input_tokens > 100 && counted.input_tokens < 400);
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    assert(models.includes("claude/sonnet"), models.join());
  },

  async cancel() {
    const stream = client.messages.stream(request(LONG));
    let count = 0;
    for await (const event of stream) {
      if (event.type === "content_block_delta" && ++count === 3) break;
    }
    stream.abort();
  },
});
