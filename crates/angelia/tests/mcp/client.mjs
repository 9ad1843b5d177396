// The official MCP client for JavaScript, unmodified. Reads what to do from a file, one JSON object:
// { program, args, steps: [{ list: true } | { call, with, abort_on? }] }, and prints one JSON object
// per step. `abort_on` gives a call up when its progress says that.

import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const order = JSON.parse(readFileSync(process.argv[2], "utf8"));
const transport = new StdioClientTransport({
  command: order.program,
  args: order.args,
  env: process.env,
  cwd: process.cwd(),
  stderr: "inherit",
});
const client = new Client({ name: "angelia-tests", version: "1.0.0" });
await client.connect(transport);

async function call(step) {
  const progress = [];
  const abort = new AbortController();
  const options = {
    signal: abort.signal,
    timeout: 120_000,
    resetTimeoutOnProgress: true,
    onprogress: (said) => {
      progress.push(said);
      if (step.abort_on && said.message?.includes(step.abort_on)) {
        abort.abort("no longer wanted");
      }
    },
  };
  const request = { name: step.call, arguments: step.with ?? {} };
  try {
    const result = await client.callTool(request, undefined, options);
    return { result, progress };
  } catch (error) {
    return { threw: String(error.message ?? error), code: error.code, progress };
  }
}

for (const step of order.steps) {
  const answer = step.list ? await client.listTools() : await call(step);
  process.stdout.write(JSON.stringify(answer) + "\n");
}
process.stdout.write(JSON.stringify({ server: client.getServerVersion() }) + "\n");
await client.close();
