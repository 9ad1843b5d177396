// The official ACP library for TypeScript as an editor: it starts `angelia acp`, checks everything
// it hears against the protocol's schema, and does what editors do. The model is scripted by the
// prompt itself, as `directive.rs` of the testkit says.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import * as stable from "@agentclientprotocol/sdk";
import * as unstable from "@agentclientprotocol/sdk/unstable";

const { methods, ndJsonStream, PROTOCOL_VERSION } = stable;

const ANGELIA = process.env.ANGELIA;
const WORK = process.cwd();
const PNG = process.env.ANGELIA_PNG;

/** An answer of forty seconds. */
const LONG = "WORDS:2000:20";

const text = (text) => ({ type: "text", text });
const tool = (name, input, then) => `TOOL:${JSON.stringify({ name, input })}:END ECHO:${then}`;

/** One agent process with an editor around it, for as long as `work` takes. */
async function editor(work, { sdk = stable, can = {} } = {}) {
  const child = spawn(ANGELIA, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const heard = [];
  const asked = [];
  const state = { heard, asked, choose: "none", onUpdate: () => {} };
  const app = sdk
    .client({ name: "angelia-tests" })
    .onNotification(methods.client.session.update, ({ params }) => {
      heard.push(params.update);
      state.onUpdate(params.update);
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      asked.push(params);
      const option = params.options.find((option) => option.kind === state.choose);
      if (option === undefined) return { outcome: { outcome: "cancelled" } };
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .onRequest(methods.client.elicitation.create, ({ params }) => {
      asked.push(params);
      return state.fill(params.requestedSchema);
    });
  const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (agent) => {
    state.hello = await agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: can,
      clientInfo: { name: "angelia-tests", version: "0" },
    });
    await work(agent, state);
  });
  child.stdin.end();
  assert.equal(await ended, 0);
}

const said = (heard, kind) =>
  heard
    .filter((update) => update.sessionUpdate === kind)
    .map((update) => update.content.text ?? "")
    .join("");

const open = (agent) => agent.request(methods.agent.session.new, { cwd: WORK, mcpServers: [] });

const prompt = (agent, sessionId, ...blocks) =>
  agent.request(methods.agent.session.prompt, { sessionId, prompt: blocks });

const scenarios = {
  async text() {
    await editor(async (agent, { hello, heard }) => {
      assert.equal(hello.protocolVersion, PROTOCOL_VERSION);
      assert.equal(hello.agentInfo.name, "angelia");
      const { sessionId, modes, configOptions } = await open(agent);
      assert.equal(modes.currentModeId, "ask");
      assert.deepEqual(configOptions.map((option) => option.id), ["mode", "model"]);
      const { stopReason } = await prompt(agent, sessionId, text("THINK WORDS:20"));
      assert.equal(stopReason, "end_turn");
      const chunks = heard.filter((update) => update.sessionUpdate === "agent_message_chunk");
      assert.ok(chunks.length > 5, `${chunks.length} chunks`);
      assert.equal(said(heard, "agent_message_chunk").trim().split(/\s+/).length, 20);
      assert.notEqual(said(heard, "agent_thought_chunk"), "");
    });
  },

  async permission() {
    await editor(async (agent, state) => {
      const { sessionId } = await open(agent);
      const path = join(WORK, "made.txt");
      const write = tool("Write", { file_path: path, content: "made\n" }, "and then");
      state.choose = "reject_once";
      await prompt(agent, sessionId, text(write));
      assert.ok(!existsSync(path));
      assert.equal(state.asked.length, 1);
      const kinds = state.asked[0].options.map((option) => option.kind);
      // For the session, and for good: ACP has one kind for both.
      assert.deepEqual(kinds, ["allow_once", "allow_always", "allow_always", "reject_once"]);
      const failed = state.heard.findLast((u) => u.sessionUpdate === "tool_call_update");
      assert.equal(failed.status, "failed");

      state.heard.length = 0;
      state.choose = "allow_once";
      const { stopReason } = await prompt(agent, sessionId, text(write));
      assert.equal(stopReason, "end_turn");
      assert.equal(readFileSync(path, "utf8"), "made\n");
      const call = state.heard.find((update) => update.sessionUpdate === "tool_call");
      assert.equal(call.kind, "edit");
      assert.deepEqual(call.locations, [{ path }]);
      const diff = { type: "diff", path, oldText: null, newText: "made\n" };
      assert.deepEqual(call.content, [diff]);
      assert.deepEqual(state.asked[1].toolCall.content, [diff]);
      assert.equal(state.asked[1].toolCall.toolCallId, call.toolCallId);
      const done = state.heard.findLast((u) => u.sessionUpdate === "tool_call_update");
      assert.equal(done.status, "completed");
    });
  },

  async modes() {
    await editor(async (agent, state) => {
      const { sessionId } = await open(agent);
      await agent.request(methods.agent.session.setMode, { sessionId, modeId: "edit" });
      const path = join(WORK, "edited.txt");
      writeFileSync(path, "before\n");
      const edit = { file_path: path, old_string: "before", new_string: "after" };
      await prompt(agent, sessionId, text(tool("Read", { file_path: path }, "read")));
      await prompt(agent, sessionId, text(tool("Edit", edit, "edited")));
      assert.equal(readFileSync(path, "utf8"), "after\n");
      assert.equal(state.asked.length, 0);
      const calls = state.heard.filter((update) => update.sessionUpdate === "tool_call");
      assert.deepEqual(calls.map((call) => call.kind), ["read", "edit"]);
      const { oldText, newText } = calls[1].content[0];
      assert.deepEqual([oldText, newText], ["before", "after"]);
      const { configOptions } = await agent.request(methods.agent.session.setConfigOption, {
        sessionId,
        configId: "model",
        value: "haiku",
      });
      const model = configOptions.find((option) => option.id === "model");
      assert.equal(model.currentValue, "haiku");
      await prompt(agent, sessionId, text("ECHO:on another model"));
    });
  },

  async cancel() {
    await editor(async (agent, state) => {
      const { sessionId } = await open(agent);
      const begun = new Promise((resolve) => {
        state.onUpdate = (update) => {
          if (update.sessionUpdate === "agent_message_chunk") resolve();
        };
      });
      const answer = prompt(agent, sessionId, text(LONG));
      await begun;
      await agent.notify(methods.agent.session.cancel, { sessionId });
      assert.equal((await answer).stopReason, "cancelled");
      assert.equal((await prompt(agent, sessionId, text("ECHO:again"))).stopReason, "end_turn");
    });
  },

  async load() {
    let session;
    await editor(async (agent) => {
      session = (await open(agent)).sessionId;
      await prompt(agent, session, text("remember the word ECHO:first answer"));
    });
    await editor(async (agent, { heard }) => {
      const { sessions } = await agent.request(methods.agent.session.list, { cwd: WORK });
      assert.ok(sessions.some((one) => one.sessionId === session));
      const at = { sessionId: session, cwd: WORK, mcpServers: [] };
      await agent.request(methods.agent.session.load, at);
      assert.equal(said(heard, "user_message_chunk"), "remember the word ECHO:first answer");
      assert.equal(said(heard, "agent_message_chunk"), "first answer");
      heard.length = 0;
      await prompt(agent, session, text("ECHO:second answer"));
      assert.equal(said(heard, "agent_message_chunk"), "second answer");
    });
  },

  /** What a prompt used is not part of the stable protocol yet. */
  async usage() {
    await editor(
      async (agent, { heard }) => {
        const { sessionId } = await open(agent);
        const path = join(WORK, "read.txt");
        writeFileSync(path, "text\n");
        const { usage: one, _meta } = await prompt(agent, sessionId, text("ECHO:hello"));
        assert.ok(one.inputTokens > 0 && one.outputTokens > 0, JSON.stringify(one));
        const sum = (of) =>
          of.inputTokens + of.outputTokens + of.cachedReadTokens + of.cachedWriteTokens;
        assert.equal(one.totalTokens, sum(one));
        assert.ok(_meta.angelia.costUsd > 0, JSON.stringify(_meta));
        // The model is asked twice in one turn, and then once again: each answer has its own count.
        const read = tool("Read", { file_path: path }, "read");
        const { usage: two } = await prompt(agent, sessionId, text(read));
        const { usage: three } = await prompt(agent, sessionId, text("ECHO:hello"));
        assert.ok(two.outputTokens > one.outputTokens, JSON.stringify([one, two]));
        assert.equal(three.outputTokens, one.outputTokens);
        // The context holds what one request read and wrote, however many a turn has made.
        const meters = heard.filter((update) => update.sessionUpdate === "usage_update");
        assert.deepEqual(meters.map((meter) => meter.used), Array(3).fill(one.totalTokens));
        assert.ok(meters.every((meter) => meter.size > meter.used), JSON.stringify(meters));
        const costs = meters.map((meter) => meter.cost.amount);
        assert.ok(0 < costs[0] && costs[0] < costs[1] && costs[1] < costs[2], costs.join());
      },
      { sdk: unstable },
    );
  },

  async fork() {
    await editor(
      async (agent, { hello, heard }) => {
        assert.deepEqual(hello.agentCapabilities.sessionCapabilities.fork, {});
        const { sessionId } = await open(agent);
        await prompt(agent, sessionId, text("before the fork ECHO:first answer"));
        heard.length = 0;
        const fork = await agent.request(unstable.methods.agent.session.fork, {
          sessionId,
          cwd: WORK,
          mcpServers: [],
        });
        assert.notEqual(fork.sessionId, sessionId);
        assert.equal(fork.modes.currentModeId, "ask");
        await prompt(agent, fork.sessionId, text("on the fork ECHO:second answer"));
        await prompt(agent, sessionId, text("beside the fork ECHO:third answer"));
        assert.equal(said(heard, "agent_message_chunk"), "second answerthird answer");
      },
      { sdk: unstable },
    );
  },

  async question() {
    const options = ["Red", "Blue"].map((label) => ({ label, description: `It is ${label}` }));
    const question = { question: "Which one?", header: "Colour", options, multiSelect: false };
    const ask = text(tool("AskUserQuestion", { questions: [question] }, "chosen"));
    await editor(
      async (agent, state) => {
        state.fill = ({ properties }) => {
          const values = properties.Colour.oneOf.map((one) => one.const);
          assert.deepEqual(values, ["Red", "Blue"]);
          return { action: "accept", content: { Colour: "Blue" } };
        };
        const { sessionId } = await open(agent);
        await prompt(agent, sessionId, ask);
        assert.equal(state.asked.length, 1);
        const done = state.heard.findLast((u) => u.sessionUpdate === "tool_call_update");
        assert.equal(done.status, "completed");
        assert.ok(done.rawOutput.includes("Blue"), done.rawOutput);
      },
      { can: { elicitation: { form: {} } } },
    );
  },

  async login() {
    await editor(async (agent, { hello }) => {
      const [{ id }] = hello.authMethods;
      await agent.request(methods.agent.authenticate, { methodId: id });
      const odd = agent.request(methods.agent.authenticate, { methodId: "oauth" });
      await assert.rejects(odd, (error) => error.code === -32602 && /doctor/.test(error.message));
    });
  },

  async picture() {
    await editor(async (agent) => {
      const { sessionId } = await open(agent);
      const image = { type: "image", mimeType: "image/png", data: PNG };
      const uri = `file://${WORK}/notes.txt`;
      const resource = { type: "resource", resource: { uri, text: "the notes" } };
      const { stopReason } = await prompt(agent, sessionId, resource, image, text("ECHO:seen"));
      assert.equal(stopReason, "end_turn");
    });
  },
};

const chosen = process.argv.slice(2);
for (const [name, run] of Object.entries(scenarios)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  await run();
  console.log(`${name} ok`);
}
