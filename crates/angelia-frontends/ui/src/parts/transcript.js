// A turn in readable form: the input, what the agent thought, did and said, and how it ended.

import { cacheShare, clock, fullTime, money, now, percent, readable, seenFrom, span, tokens, visible } from "../format.js";
import { statedChanges } from "../diff.js";
import { component, computed, html, signal } from "../view.js";
import { t } from "../words.js";
import { Diff } from "./diff.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { Status } from "./status.js";

/** How many steps are shown at first. A button shows the earlier ones. */
const SHOWN_PARTS = 150;
const MAX_OUTPUT = 20000;

/** @typedef {import("../turn_view.js").Part} Part */
/** @typedef {import("../turn_view.js").ToolPart} ToolPart */

/** Returns the line that describes a call. @param {ToolPart} tool @param {string} cwd */
function toolTitle(tool, cwd) {
  const input = tool.input && typeof tool.input === "object" ? tool.input : {};
  const title = tool.title.startsWith(`${tool.name} `) ? tool.title.slice(tool.name.length + 1) : tool.title;
  const known = title && title !== tool.name ? title : input.command ?? input.file_path ?? input.path ?? input.pattern ?? input.url ?? "";
  return typeof known === "string" ? visible(seenFrom(known, cwd)).split("\n", 1)[0] ?? "" : "";
}

/** @param {ToolPart} tool */
function inputText(tool) {
  const input = tool.input;
  if (input && typeof input === "object" && typeof input.command === "string") return input.command;
  return JSON.stringify(input, null, 2) ?? "";
}

/** @type {import("../../vendor/preact.js").ComponentType<{tool: ToolPart, cwd: string}>} */
const Tool = component(() => {
  const open = signal(false);
  return ({ tool, cwd }) => {
    const state = tool.ok === null ? "busy" : tool.ok ? "good" : "bad";
    const took = tool.finished ? Date.parse(tool.finished) - Date.parse(tool.started) : now.value - Date.parse(tool.started);
    const changes = open.value ? statedChanges(tool) : [];
    return html`<details class=${`tool ${state}${tool.parent ? " inner" : ""}`} onToggle=${(/** @type {any} */ event) => (open.value = event.target.open)}>
      <summary>
        <${Icon} name="tool" /><span class="tool-name">${readable(tool.name)}</span>
        <span class="tool-title">${toolTitle(tool, cwd)}</span>
        <span class="tool-state">${tool.ok === null ? t("runs") : tool.ok ? html`<span aria-hidden="true">✓</span><span class="unseen">${t("ok")}</span>` : t("failed")} <span class="faint">${took >= 1000 || tool.ok === null ? span(took) : `${(took / 1000).toFixed(1)} s`}</span></span>
      </summary>
      ${open.value && html`<div class="tool-body">
        ${changes.length
          ? changes.map((file) => html`<div class="file" key=${file.path}><div class="file-name"><code>${visible(file.path)}</code></div><${Diff} lines=${file.lines} label=${t("changes_of", visible(file.path))} /></div>`)
          : html`<pre class="exact" tabindex="0" aria-label=${t("input")}>${visible(inputText(tool))}</pre>`}
        ${tool.output && html`<pre class="output" tabindex="0" aria-label=${t("output")}>${visible(tool.output.slice(0, MAX_OUTPUT))}${tool.output.length > MAX_OUTPUT && html`<span class="faint">\n… ${t("more_characters", tool.output.length - MAX_OUTPUT)}</span>`}</pre>`}
      </div>`}
    </details>`;
  };
});

/** @param {{part: Part, live: boolean, cwd: string}} props */
function PartView({ part, live, cwd }) {
  switch (part.kind) {
    case "text":
      return html`<div class=${live && !part.whole ? "answer streaming" : "answer"}><${Markdown} text=${part.text} /></div>`;
    case "reasoning":
      return html`<details class="reasoning"><summary>${t("reasoning")} <span class="faint">${readable(part.text).trim().slice(0, 90)}</span></summary><${Markdown} text=${part.text} /></details>`;
    case "tool":
      return html`<${Tool} tool=${part} cwd=${cwd} />`;
    case "approval":
      return html`<p class="asked"><${Icon} name="inbox" /> ${readable(seenFrom(part.title, cwd))} <span class="faint">${part.verdict ? html`${t(`verdict_${part.verdict}`)} ${t("by", readable(part.by ?? ""))}` : html`<a href="#/inbox">${t("waits_for_you")}</a>`}</span></p>`;
    default:
      return html`<p class=${`notice ${part.level}`}><${Icon} name="warn" /> <span>${readable(part.text)}</span></p>`;
  }
}

/** @param {any[]} input */
function inputView(input) {
  return (input ?? []).map((part, index) =>
    part.type === "text"
      ? html`<div key=${index} class="said-text">${readable(part.text)}</div>`
      : html`<div key=${index} class="faint">${t("image", part.media_type)}</div>`,
  );
}

/** @typedef {{turn: any, cwd: string, stream: import("./turn_stream.js").TurnStream | null, open: () => void}} TurnProps */

/** @type {import("../../vendor/preact.js").ComponentType<TurnProps>} */
export const Turn = component((life) => {
  const all = signal(false);
  const view = computed(() => life.given.value.stream?.view.value ?? null);

  /** @param {any} turn */
  const foot = (turn) => {
    const usage = view.value?.usage ?? turn.usage;
    const end = turn.finished_at ?? view.value?.finished?.time;
    const took = (end ? Date.parse(end) : now.value) - Date.parse(turn.created_at);
    const share = usage ? cacheShare(usage) : null;
    return html`<footer class="turn-foot">
      <${Status} status=${turn.status} />
      <span title=${fullTime(turn.created_at)}>${clock(took)}</span>
      ${usage && html`<span title=${t("cost")}>${money(usage.cost_usd)}</span>
        <span title=${t("tokens_of", usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)}>${tokens(usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens)} → ${tokens(usage.output_tokens)}</span>
        ${share !== null && html`<span>${t("cache", percent(share))}</span>`}`}
      ${turn.clock && html`<span class="faint">${t("clock", t(`state_${turn.clock.name}`, turn.clock.name), clock(Date.parse(turn.clock.fires_at) - now.value))}</span>`}
    </footer>`;
  };

  return ({ turn, cwd, stream, open }) => {
    const parts = view.value?.parts ?? [];
    const shown = all.value ? parts : parts.slice(-SHOWN_PARTS);
    const offset = parts.length - shown.length;
    const live = !view.value?.finished;
    const failure = view.value?.finished?.failure ?? turn.failure;
    const hasAnswer = parts.some((part) => part.kind === "text");
    return html`<article class="turn" id=${`turn-${turn.id}`} data-turn=${turn.id} aria-label=${t("turn")}>
      <div class="said" tabindex="0"><span class="who">${t("you")}</span>${inputView(turn.input)}</div>
      ${offset > 0 && html`<button type="button" class="quiet" onClick=${() => (all.value = true)}>${t("earlier_steps", offset)}</button>`}
      ${view.value && view.value.plan.length > 0 && html`<ol class="plan" aria-label=${t("plan")}>${view.value.plan.map((item, i) => html`<li key=${i} class=${item.status}><span aria-hidden="true">${item.status === "completed" ? "✓" : item.status === "in_progress" ? "●" : "○"}</span> ${readable(item.text)}</li>`)}</ol>`}
      ${shown.map((part, index) => html`<${PartView} key=${offset + index} part=${part} live=${live} cwd=${cwd} />`)}
      ${!stream && turn.text && html`<div class="answer"><${Markdown} text=${turn.text} /></div>`}
      ${stream && !hasAnswer && view.value?.finished?.text && html`<div class="answer"><${Markdown} text=${view.value.finished.text} /></div>`}
      ${!stream && turn.status !== "queued" && html`<button type="button" class="quiet" onClick=${open}>${t("show_steps")}</button>`}
      ${failure && html`<div class="failure" role="note"><strong>${readable(failure.message)}</strong>${failure.hint && html` <span>${readable(failure.hint)}</span>`}</div>`}
      ${foot(turn)}
    </article>`;
  };
});
