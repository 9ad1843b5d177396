// The parts of the page that are pure: the view of a turn, Markdown, diffs, and foreign text.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";

const ui = path.join(import.meta.dirname, "../../crates/angelia-frontends/ui");
const source = (name) => import(path.join(ui, "src", name));
// What the modules expect of a browser.
globalThis.localStorage = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
globalThis.document = { documentElement: { dataset: {} }, visibilityState: "visible", addEventListener: () => {} };
Object.defineProperty(globalThis, "navigator", { value: { languages: ["en"] }, configurable: true });
globalThis.setInterval = () => 0;

const { EMPTY_TURN, reduceAll, reduceTurn } = await source("turn_view.js");
const { parseMarkdown, inline } = await source("markdown.js");
const { compareTexts, diffFiles, turnChanges } = await source("diff.js");
const { EventParser } = await source("sse.js");
const { readable, visible } = await source("format.js");
const { ENGLISH } = await source("words_en.js");
const { CHINESE } = await source("words_zh.js");

let seq = 0;
const event = (type, fields) => ({ seq: (seq += 1), time: "2026-11-17T12:00:00Z", type, ...fields });

test("a finished block replaces its deltas", () => {
  seq = 0;
  const view = reduceAll(EMPTY_TURN, [event("text.delta", { block: 0, text: "Hel" }), event("text.delta", { block: 0, text: "lo" }), event("text", { block: 0, text: "Hello" })]);
  assert.deepEqual(view.parts, [{ kind: "text", block: 0, text: "Hello", whole: true }]);
});

test("any cut and resume of a stream gives the same view", () => {
  seq = 0;
  const events = [
    event("turn.started", { profile: "a" }),
    event("reasoning.delta", { block: 0, text: "hm" }),
    event("reasoning", { block: 0, text: "hm." }),
    event("tool.started", { tool_id: "t", name: "Bash", class: "execute", input: { command: "ls" } }),
    event("approval.requested", { approval_id: "a", title: "ls", tool_id: "t" }),
    event("approval.resolved", { approval_id: "a", verdict: "once", by: "owner" }),
    event("tool.finished", { tool_id: "t", ok: true, output: "x" }),
    event("text.delta", { block: 1, text: "do" }),
    event("text.delta", { block: 1, text: "ne" }),
    event("text", { block: 1, text: "done" }),
    event("native", { name: "x", raw: {} }),
    event("turn.finished", { status: "completed", text: "done", usage: { cost_usd: 1 } }),
  ];
  const whole = reduceAll(EMPTY_TURN, events);
  for (let cut = 0; cut <= events.length; cut += 1) {
    const first = reduceAll(EMPTY_TURN, events.slice(0, cut));
    // What was seen may come again.
    for (let back = 0; back <= cut; back += 1) assert.deepEqual(reduceAll(first, events.slice(back)), whole);
  }
  assert.equal(whole.hidden, 1);
  assert.deepEqual(reduceTurn(whole, events[3]), whole);
});

/** The events that the encoders are tested with: every kind of them, and those of a whole turn. */
function goldenEvents() {
  const read = (name) => fs.readFileSync(path.join(ui, "../..", name), "utf8").split("---\n").slice(2).join("---\n");
  const lines = read("angelia-frontends/tests/snapshots/event_json__every_kind_of_event_has_its_golden_line.snap");
  return {
    every_kind: lines.trim().split("\n").map((line) => JSON.parse(line)),
    demo: JSON.parse(read("angelia/tests/cli/snapshots/cli__demo__events_of_a_turn.snap")),
  };
}

test("the view of every recorded event is the one we know", () => {
  const file = path.join(import.meta.dirname, "turn_views.json");
  const golden = goldenEvents();
  const views = Object.fromEntries(Object.entries(golden).map(([name, events]) => [name, reduceAll(EMPTY_TURN, events)]));
  const text = `${JSON.stringify(views, null, 1)}\n`;
  if (process.env.UPDATE_DOCS) fs.writeFileSync(file, text);
  assert.equal(text, fs.readFileSync(file, "utf8"), "UPDATE_DOCS=1 takes the new views");
  for (const [name, events] of Object.entries(golden)) {
    for (let cut = 0; cut <= events.length; cut += 1) {
      const first = reduceAll(EMPTY_TURN, events.slice(0, cut));
      assert.deepEqual(reduceAll(first, events.slice(Math.max(0, cut - 3))), views[name], `${name} ${cut}`);
    }
  }
});

test("an event stream may be cut anywhere", () => {
  const text = 'id: 1\nevent: a\ndata: {"x":1}\n\n: keep-alive\n\nid: 2\nevent: b\ndata: one\ndata: two\n\n';
  const all = new EventParser().push(text);
  assert.deepEqual(all, [{ id: "1", event: "a", data: '{"x":1}' }, { id: "2", event: "b", data: "one\ntwo" }]);
  for (let cut = 0; cut <= text.length; cut += 1) {
    const parser = new EventParser();
    assert.deepEqual([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))], all);
  }
});

test("markdown is text, and only the web is linked", () => {
  const [paragraph] = parseMarkdown("a **b** `c` [d](https://x.example/y) [e](javascript:alert(1)) ![p](https://x.example/p.png) <img src=x onerror=alert(1)>");
  const types = paragraph.inside.map((one) => one.type);
  assert.ok(types.includes("strong") && types.includes("code") && types.includes("link"));
  const links = paragraph.inside.filter((one) => one.type === "link");
  assert.deepEqual(links.map((one) => one.url), ["https://x.example/y"]);
  const words = JSON.stringify(paragraph);
  assert.ok(words.includes("javascript:alert(1)") && words.includes("<img src=x onerror=alert(1)>"), "it stays text");
  assert.ok(!words.includes("p.png"), "a picture is its description");
});

test("markdown knows lists, tables, quotes and code", () => {
  const blocks = parseMarkdown("# T\n\n1. a\n2. b\n   - c\n\n- [x] done\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n> q\n\n```js\nlet x = `1`;\n```\n---\nend");
  assert.deepEqual(blocks.map((one) => one.type), ["heading", "list", "list", "table", "quote", "code", "rule", "paragraph"]);
  assert.equal(blocks[1].items.length, 2);
  assert.equal(blocks[2].items[0].checked, true);
  assert.deepEqual(blocks[3].align, ["start", "end"]);
  assert.equal(blocks[5].text, "let x = `1`;");
});

test("hostile markdown ends", () => {
  const hostile = ["*".repeat(5000), "[".repeat(5000), "> ".repeat(3000), "`".repeat(4999), "_a".repeat(3000), "| ".repeat(2000) + "\n|--|", "- ".repeat(2000), "**".repeat(2500) + "a"];
  for (const text of hostile) {
    const started = Date.now();
    parseMarkdown(text);
    assert.ok(Date.now() - started < 2000, text.slice(0, 20));
  }
  assert.equal(inline("snake_case_name")[0].text, "snake_case_name");
});

test("what a person would not see is shown", () => {
  assert.equal(visible("a\u202eb\u200bc\u0007"), "a⟦U+202E⟧b⟦U+200B⟧c⟦U+0007⟧");
  assert.equal(visible("\u001b[31mred\u001b[0m \u001b]8;;http://x\u0007link"), "red link");
  assert.equal(visible("tag\u{e0041}"), "tag⟦U+E0041⟧");
  assert.equal(readable("👩‍💻 ok"), "👩💻 ok".replace("👩💻", readable("👩‍💻")));
});

test("the changes of a turn are those its agent stated", () => {
  seq = 0;
  const view = reduceAll(EMPTY_TURN, [
    event("tool.started", { tool_id: "e", name: "Edit", class: "edit", input: { file_path: "/a.txt", old_string: "one\ntwo", new_string: "one\n2" } }),
    event("approval.requested", { approval_id: "x", title: "edit", tool_id: "e" }),
    event("approval.resolved", { approval_id: "x", verdict: "deny", by: "owner" }),
    event("tool.finished", { tool_id: "e", ok: false, output: "denied" }),
    event("tool.started", { tool_id: "w", name: "Write", class: "edit", input: { file_path: "/b.txt", content: "x\ny\n" } }),
  ]);
  const changes = turnChanges(view.parts);
  assert.deepEqual(changes.map(({ path: name, added, removed, state }) => [name, added, removed, state]), [["/a.txt", 1, 1, "denied"], ["/b.txt", 2, 0, "running"]]);
  assert.deepEqual(diffFiles("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")[0].path, "x");
  assert.deepEqual(compareTexts("a\nb\nc", "a\nx\nc").map((line) => line.kind), ["same", "removed", "added", "same"]);
});

test("every text is there in both languages, and every text that is used exists", () => {
  assert.deepEqual(Object.keys(CHINESE), Object.keys(ENGLISH));
  for (const [name, text] of Object.entries(ENGLISH)) {
    const places = (one) => [...one.matchAll(/\{(\d)\}/g)].map((match) => match[1]).sort();
    assert.deepEqual(places(CHINESE[name]), places(text), name);
  }
  const files = fs.readdirSync(path.join(ui, "src"), { recursive: true }).filter((name) => name.endsWith(".js"));
  for (const file of files) {
    const code = fs.readFileSync(path.join(ui, "src", file), "utf8");
    for (const [, name] of code.matchAll(/\bt\("([^"]+)"/g)) assert.ok(name in ENGLISH, `${file}: ${name}`);
    assert.ok(!/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(/.test(code), `${file} makes markup of text`);
    assert.ok(code.split("\n").length <= 400, `${file} is too long`);
  }
});

test("what the feed tells while a list is read is not undone by the list", async () => {
  const [{ setToken }, { startFeed }, { channels, startStore }] = await Promise.all([source("api.js"), source("feed.js"), source("store.js")]);
  /** @type {ReadableStreamDefaultController} */
  let feed;
  const tell = (name, data) => feed.enqueue(new TextEncoder().encode(`id: b-1\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`));
  const promise = () => {
    let resolve;
    return { promise: new Promise((take) => (resolve = take)), resolve: () => resolve() };
  };
  const [asked, list] = [promise(), promise()];
  let statusReads = 0;
  globalThis.fetch = async (where) => {
    if (where === "/api/events") return new Response(new ReadableStream({ start: (control) => void (feed = control) }));
    // The first attempt fails, and is repeated.
    if (where === "/api/status" && (statusReads += 1) === 1) return Response.json({}, { status: 503 });
    if (where === "/api/status") return Response.json({ approvals: [], turns: [], agents: [], quotas: [], bus: null });
    if (where !== "/api/channels") return Response.json({ data: [] });
    if (statusReads > 1) asked.resolve();
    return list.promise.then(() => Response.json({ data: [{ id: "slack" }, { id: "telegram", state: "connecting" }] }));
  };
  startStore();
  setToken("t");
  startFeed();
  tell("reset", {});
  await asked.promise;
  tell("channel.changed", { id: "telegram", state: "connected" });
  list.resolve();
  await new Promise((resolve) => channels.subscribe((now) => now.has("slack") && resolve()));
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.equal(channels.value.get("telegram").state, "connected");
  setToken(null);
  feed.close();
});
