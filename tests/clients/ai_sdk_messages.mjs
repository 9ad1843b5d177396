// The Vercel AI SDK, as it speaks to Anthropic.

import assert from "node:assert/strict";

import { createAnthropic } from "@ai-sdk/anthropic";
import { APICallError, Output, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { KEY, LONG, MODEL, PNG, URL, calls, equal, fillsSchema, main, words } from "./scenarios.mjs";

const anthropic = createAnthropic({ baseURL: `${URL}/v1`, apiKey: KEY });
const model = anthropic(MODEL);

const get_weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const once = { maxRetries: 0 };

await main({
  async plain() {
    const answer = await generateText({ ...once, model, system: "Be terse.", prompt: "ECHO:hello" });
    equal(answer.text, "hello");
    equal(answer.finishReason, "stop");
    assert(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
  },

  async streamed() {
    const answer = streamText({ ...once, model, prompt: "WORDS:20" });
    let text = "";
    for await (const piece of answer.textStream) text += piece;
    equal(text.trim().split(" "), words(20));
    assert((await answer.usage).outputTokens > 0);
  },

  async conversation() {
    const messages = [{ role: "user", content: "ECHO:one" }];
    const first = await generateText({ ...once, model, messages });
    messages.push(...first.response.messages, { role: "user", content: "ECHO:two" });
    equal((await generateText({ ...once, model, messages })).text, "two");
  },

  async tools() {
    const prompt = calls([["get_weather", { city: "Athens" }], ["get_weather", { city: "Oslo" }]], "Sunny.");
    const options = { ...once, model, prompt, tools: { get_weather }, stopWhen: stepCountIs(3) };
    const answer = await generateText(options);
    equal(answer.text, "Sunny.");
    equal(answer.steps.length, 2);
    equal(answer.steps[0].toolResults.map((result) => result.output), ["sunny in Athens", "sunny in Oslo"]);
    const streamed = streamText(options);
    let text = "";
    for await (const piece of streamed.textStream) text += piece;
    assert(text.endsWith("Sunny."), text);
  },

  async image() {
    const content = [{ type: "text", text: "ECHO:red" }, { type: "image", image: PNG, mediaType: "image/png" }];
    const answer = await generateText({ ...once, model, messages: [{ role: "user", content }] });
    equal(answer.text, "red");
  },

  async schema() {
    const schema = z.object({ name: z.string(), age: z.number() });
    const person = { name: "Ada", age: 36 };
    const structured = createAnthropic({ baseURL: `${URL}/v1`, apiKey: KEY })(MODEL);
    const providerOptions = { anthropic: { structuredOutputMode: "outputFormat" } };
    const answer = await generateText({
      ...once,
      model: structured,
      prompt: fillsSchema(person),
      output: Output.object({ schema }),
      providerOptions,
    });
    equal(answer.output, person);
  },

  async errors() {
    const missing = generateText({ ...once, model: anthropic("no-such-model"), prompt: "x" });
    await assert.rejects(missing, (error) => APICallError.isInstance(error) && error.statusCode === 404);
  },

  async cancel() {
    const stop = new AbortController();
    const answer = streamText({ ...once, model, prompt: LONG, abortSignal: stop.signal });
    let count = 0;
    for await (const _ of answer.textStream) {
      if (++count === 3) break;
    }
    stop.abort();
  },
});
