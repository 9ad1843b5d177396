// What the scripts of the JavaScript clients share; `scenarios.py` says how it works.

import assert from "node:assert/strict";

export const URL = process.env.ANGELIA_URL;
export const KEY = process.env.ANGELIA_KEY;
export const MODEL = process.env.ANGELIA_MODEL;
export const PNG = process.env.ANGELIA_PNG;

const TOOLS = process.env.ANGELIA_TOOLS ?? "mcp__client__";

export const PERSON = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};

/** An answer of forty seconds. */
export const LONG = "WORDS:2000:20";

export const equal = assert.deepEqual;

/** A prompt: the model calls these tools, each `[name, input]`, and afterwards says `then`. */
export function calls(wanted, then) {
  const tools = wanted.map(([name, input]) => ({ name: TOOLS + name, input }));
  return `TOOL:${JSON.stringify(tools)}:END ECHO:${then}`;
}

/** A prompt: the model gives this value where an answer of a given form is demanded. */
export function fillsSchema(input) {
  return `TOOL:${JSON.stringify({ name: "StructuredOutput", input })}:END ECHO:done`;
}

export function words(count) {
  return Array.from({ length: count }, (_, index) => `w${index}`);
}

/** Runs the scenarios, by name, in order, or those that the command line names. */
export async function main(scenarios) {
  const chosen = process.argv.slice(2);
  for (const [name, run] of Object.entries(scenarios)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    await run();
    console.log(`${name} ok`);
  }
}
