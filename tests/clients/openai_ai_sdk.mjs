// The Vercel AI SDK, as it speaks to OpenAI (Responses, and Chat Completions) and to those who are
// compatible.

import assert from "node:assert/strict";

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, Output, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { KEY, LONG, MODEL, PNG, URL, calls, equal, fillsSchema, main, words } from "./scenarios.mjs";

const settings = { baseURL: `${URL}/v1`, apiKey: KEY };
const openai = createOpenAI(settings);
const compatible = createOpenAICompatible({
  ...settings,
  name: "angelia",
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const ways = { responses: openai, chat: openai.chat, compatible };

const get_weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const scenarios = {
  async plain(options) {
    const answer = await generateText({ ...options, system: "Be terse.", prompt: "ECHO:hello" });
    equal(answer.text, "hello");
    equal(answer.finishReason, "stop");
    assert(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
    assert(answer.usage.inputTokenDetails.cacheReadTokens > 0);
  },

  async streamed(options) {
    const answer = streamText({ ...options, prompt: "WORDS:20" });
    let text = "";
    for await (const piece of answer.textStream) text += piece;
    equal(text.trim().split(" "), words(20));
    assert((await answer.usage).outputTokens > 0);
  },

  async conversation(options) {
    const messages = [{ role: "user", content: "ECHO:one" }];
    const first = await generateText({ ...options, messages });
    messages.push(...first.response.messages, { role: "user", content: "ECHO:two" });
    equal((await generateText({ ...options, messages })).text, "two");
  },

  async tools(options) {
    const prompt = calls([["get_weather", { city: "Athens" }], ["get_weather", { city: "Oslo" }]], "Sunny.");
    const equipped = { ...options, prompt, tools: { get_weather }, stopWhen: stepCountIs(3) };
    const answer = await generateText(equipped);
    equal(answer.text, "Sunny.");
    equal(answer.steps.length, 2);
    const results = answer.steps[0].toolResults.map((result) => result.output);
    equal(results, ["sunny in Athens", "sunny in Oslo"]);
    let text = "";
    for await (const piece of streamText(equipped).textStream) text += piece;
    assert(text.endsWith("Sunny."), text);
  },

  async image(options) {
    const content = [
      { type: "text", text: "ECHO:red" },
      { type: "image", image: PNG, mediaType: "image/png" },
    ];
    const answer = await generateText({ ...options, messages: [{ role: "user", content }] });
    equal(answer.text, "red");
  },

  async schema(options) {
    const schema = z.object({ name: z.string(), age: z.number() });
    const prompt = fillsSchema({ name: "Ada", age: 36 });
    const answer = await generateText({ ...options, prompt, output: Output.object({ schema }) });
    equal(answer.output, { name: "Ada", age: 36 });
  },

  async errors(options, speak) {
    const missing = generateText({ ...options, model: speak("no-such-model"), prompt: "x" });
    await assert.rejects(missing, (error) => APICallError.isInstance(error) && error.statusCode === 404);
  },

  async cancel(options) {
    const stop = new AbortController();
    const answer = streamText({ ...options, prompt: LONG, abortSignal: stop.signal });
    let count = 0;
    for await (const _ of answer.textStream) {
      if (++count === 3) break;
    }
    stop.abort();
  },
};

// A scenario for each way to speak: `responses_NAME`, `chat_NAME`, `compatible_NAME`.
const all = {};
for (const [way, speak] of Object.entries(ways)) {
  for (const [name, run] of Object.entries(scenarios)) {
    all[`${way}_${name}`] = () => run({ model: speak(MODEL), maxRetries: 0 }, speak);
  }
}
await main(all);
