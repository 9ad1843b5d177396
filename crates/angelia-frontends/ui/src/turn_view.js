// The view of a turn, as a pure function of its events: `(view, event) → view`. Views are immutable. Whatever
// has not changed in the next one is the same object, so rendering it again is cheap.

/**
 * @typedef {{kind: "text" | "reasoning", block: number, text: string, whole: boolean}} TextPart
 * @typedef {{kind: "tool", id: string, name: string, class: string, title: string, input: any, parent: string | null, started: string, finished: string | null, ok: boolean | null, output: string, diff: string | null}} ToolPart
 * @typedef {{kind: "approval", id: string, title: string, detail: string, toolId: string | null, diff: string | null, verdict: string | null, by: string | null}} ApprovalPart
 * @typedef {{kind: "notice", level: string, code: string, text: string}} NoticePart
 * @typedef {TextPart | ToolPart | ApprovalPart | NoticePart} Part
 * @typedef {object} TurnView
 * @property {number} seq  The number of the last event.
 * @property {any} started  The `turn.started` event.
 * @property {Part[]} parts
 * @property {{text: string, status: string}[]} plan
 * @property {any} usage
 * @property {any} finished  The `turn.finished` event.
 * @property {number} hidden  Events that only the list of events shows.
 */

/** @type {TurnView} */
export const EMPTY_TURN = { seq: 0, started: null, parts: [], plan: [], usage: null, finished: null, hidden: 0 };

/** @param {TurnView} view @param {any} event @returns {TurnView} */
export function reduceTurn(view, event) {
  // A resumed stream may repeat events.
  if (event.seq <= view.seq) return view;
  const next = { ...view, seq: event.seq };
  switch (event.type) {
    case "turn.started":
      return { ...next, started: event };
    case "text.delta":
    case "reasoning.delta":
      return { ...next, parts: withDelta(view.parts, event) };
    case "text":
    case "reasoning":
      return { ...next, parts: withBlock(view.parts, event) };
    case "tool.started":
      return { ...next, parts: [...view.parts, toolPart(event)] };
    case "tool.finished":
      return { ...next, parts: withResult(view.parts, event) };
    case "plan":
      return { ...next, plan: event.items };
    case "approval.requested":
      return { ...next, parts: [...view.parts, approvalPart(event)] };
    case "approval.resolved":
      return { ...next, parts: withVerdict(view.parts, event) };
    case "usage":
      return { ...next, usage: event };
    case "notice":
      return { ...next, parts: [...view.parts, { kind: "notice", level: event.level, code: event.code, text: event.text }] };
    case "turn.finished":
      return { ...next, finished: event, usage: event.usage ?? view.usage };
    default:
      return { ...next, hidden: view.hidden + 1 };
  }
}

/** @param {TurnView} view @param {any[]} events */
export function reduceAll(view, events) {
  return events.reduce(reduceTurn, view);
}

/** @param {string} type */
function channel(type) {
  return type.startsWith("text") ? "text" : "reasoning";
}

/** @param {Part[]} parts @param {any} event */
function indexOfBlock(parts, event) {
  const kind = channel(event.type);
  for (let i = parts.length - 1; i >= 0; i -= 1) {
    const part = parts[i];
    if (part && part.kind === kind && /** @type {TextPart} */ (part).block === event.block) return i;
  }
  return -1;
}

/** @param {Part[]} parts @param {any} event @returns {Part[]} */
function withDelta(parts, event) {
  const at = indexOfBlock(parts, event);
  if (at < 0) return [...parts, { kind: channel(event.type), block: event.block, text: event.text, whole: false }];
  const known = /** @type {TextPart} */ (parts[at]);
  // A complete block already has all of its text.
  return known.whole ? parts : parts.with(at, { ...known, text: known.text + event.text });
}

/** @param {Part[]} parts @param {any} event @returns {Part[]} */
function withBlock(parts, event) {
  const at = indexOfBlock(parts, event);
  /** @type {TextPart} */
  const part = { kind: channel(event.type), block: event.block, text: event.text, whole: true };
  // An empty block withdraws what was shown of it.
  if (event.text === "") return at < 0 ? parts : parts.toSpliced(at, 1);
  return at < 0 ? [...parts, part] : parts.with(at, part);
}

/** @param {any} event @returns {ToolPart} */
function toolPart(event) {
  return {
    kind: "tool",
    id: event.tool_id,
    name: event.name,
    class: event.class,
    title: event.title ?? "",
    input: event.input,
    parent: event.parent_tool_id ?? null,
    started: event.time,
    finished: null,
    ok: null,
    output: "",
    diff: null,
  };
}

/** @param {Part[]} parts @param {any} event @returns {Part[]} */
function withResult(parts, event) {
  const at = parts.findLastIndex((part) => part.kind === "tool" && part.id === event.tool_id);
  if (at < 0) return parts;
  const known = /** @type {ToolPart} */ (parts[at]);
  const output = typeof event.output === "string" ? event.output : JSON.stringify(event.output ?? "", null, 2);
  return parts.with(at, { ...known, finished: event.time, ok: event.ok, output, diff: event.diff ?? null });
}

/** @param {any} event @returns {ApprovalPart} */
function approvalPart(event) {
  return {
    kind: "approval",
    id: event.approval_id,
    title: event.title,
    detail: event.detail ?? "",
    toolId: event.tool_id ?? null,
    diff: event.diff ?? null,
    verdict: null,
    by: null,
  };
}

/** @param {Part[]} parts @param {any} event @returns {Part[]} */
function withVerdict(parts, event) {
  const at = parts.findLastIndex((part) => part.kind === "approval" && part.id === event.approval_id);
  if (at < 0) return parts;
  const known = /** @type {ApprovalPart} */ (parts[at]);
  return parts.with(at, { ...known, verdict: event.verdict, by: event.by });
}
