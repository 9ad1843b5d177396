// Derives the changes of a turn from its agent's tool calls. Pure.

/**
 * @typedef {{kind: "same" | "added" | "removed" | "hunk" | "note", text: string}} DiffLine
 * @typedef {{path: string, lines: DiffLine[], added: number, removed: number, state: "asked" | "running" | "done" | "failed" | "denied"}} FileChange
 */

/** Parses a unified diff. @param {string} text @returns {DiffLine[]} */
export function parseDiff(text) {
  /** @type {DiffLine[]} */
  const lines = [];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    if (line.startsWith("--- ") || line.startsWith("+++ ") || line.startsWith("diff ") || line.startsWith("index ")) continue;
    if (line.startsWith("@@")) lines.push({ kind: "hunk", text: line });
    else if (line.startsWith("+")) lines.push({ kind: "added", text: line.slice(1) });
    else if (line.startsWith("-")) lines.push({ kind: "removed", text: line.slice(1) });
    else if (line.startsWith("\\")) lines.push({ kind: "note", text: line.slice(1).trim() });
    else lines.push({ kind: "same", text: line.replace(/^ /, "") });
  }
  return lines;
}

/** Splits a unified diff by file. @param {string} text @returns {{path: string, lines: DiffLine[]}[]} */
export function diffFiles(text) {
  const files = [];
  let rest = text;
  for (const piece of rest.split(/^(?=--- )/m)) {
    const path = /^\+\+\+ (?:b\/)?(.*)$/m.exec(piece)?.[1] ?? /^--- (?:a\/)?(.*)$/m.exec(piece)?.[1];
    if (path !== undefined) files.push({ path: path.replace(/\t.*$/, ""), lines: parseDiff(piece) });
  }
  return files;
}

const CONTEXT = 3;

/** Compares two texts line by line. @param {string} before @param {string} after @returns {DiffLine[]} */
export function compareTexts(before, after) {
  const [a, b] = [before === "" ? [] : before.split("\n"), after === "" ? [] : after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (/** @type {string[]} */ lines) => lines.map((text) => /** @type {DiffLine} */ ({ kind: "same", text }));
  return [
    ...same(a.slice(Math.max(0, start - CONTEXT), start)),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...same(a.slice(a.length - end, a.length - end + CONTEXT)),
  ];
}

const MAX_CELLS = 250000;

/** Compares the parts that differ, by their longest common subsequence of lines. @param {string[]} a @param {string[]} b @returns {DiffLine[]} */
function middle(a, b) {
  const removed = (/** @type {string} */ text) => /** @type {DiffLine} */ ({ kind: "removed", text });
  const added = (/** @type {string} */ text) => /** @type {DiffLine} */ ({ kind: "added", text });
  if (a.length * b.length > MAX_CELLS) return [...a.map(removed), ...b.map(added)];
  const width = b.length + 1;
  const length = new Uint32Array((a.length + 1) * width);
  const at = (/** @type {number} */ i, /** @type {number} */ j) => length[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      length[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  /** @type {DiffLine[]} */
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: "same", text: a[i] ?? "" });
      i += 1;
      j += 1;
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(removed(a[i] ?? ""));
      i += 1;
    } else {
      lines.push(added(b[j] ?? ""));
      j += 1;
    }
  }
  return lines;
}

/** @param {unknown} value */
const text = (value) => (typeof value === "string" ? value : "");

/** Returns what a tool call would change according to its input. @param {import("./turn_view.js").ToolPart} tool @returns {{path: string, lines: DiffLine[]}[]} */
export function statedChanges(tool) {
  if (tool.diff) {
    const files = diffFiles(tool.diff);
    if (files.length) return files;
  }
  const input = tool.input && typeof tool.input === "object" ? tool.input : {};
  const path = text(input.file_path) || text(input.path) || text(input.notebook_path);
  if (Array.isArray(input.edits) && path) {
    const lines = input.edits.flatMap((/** @type {any} */ edit) => compareTexts(text(edit?.old_string), text(edit?.new_string)));
    return [{ path, lines }];
  }
  if (path && (typeof input.old_string === "string" || typeof input.new_string === "string")) {
    return [{ path, lines: compareTexts(text(input.old_string), text(input.new_string)) }];
  }
  const content = typeof input.content === "string" ? input.content : input.new_source;
  if (path && typeof content === "string") return [{ path, lines: compareTexts("", content.replace(/\n$/, "")) }];
  const patch = text(input.patch) || text(input.unified_diff) || text(input.diff);
  return patch ? diffFiles(patch) : [];
}

/** Returns all changes of a turn, by file. @param {import("./turn_view.js").Part[]} parts @returns {FileChange[]} */
export function turnChanges(parts) {
  /** @type {Map<string, FileChange>} */
  const files = new Map();
  for (const part of parts) {
    if (part.kind !== "tool" || (part.class !== "edit" && !part.diff)) continue;
    const asked = parts.findLast((one) => one.kind === "approval" && one.toolId === part.id);
    const approval = /** @type {import("./turn_view.js").ApprovalPart | undefined} */ (asked);
    const state = changeState(part, approval);
    // The diff in the approval is more informative than the input of the call.
    for (const { path, lines } of statedChanges({ ...part, diff: part.diff ?? approval?.diff ?? null })) {
      const known = files.get(path);
      const all = known ? [...known.lines, /** @type {DiffLine} */ ({ kind: "hunk", text: "" }), ...lines] : lines;
      const count = (/** @type {string} */ kind) => all.filter((line) => line.kind === kind).length;
      files.set(path, { path, lines: all, added: count("added"), removed: count("removed"), state });
    }
  }
  return [...files.values()];
}

/** @param {import("./turn_view.js").ToolPart} tool @param {import("./turn_view.js").ApprovalPart | undefined} approval @returns {FileChange["state"]} */
function changeState(tool, approval) {
  if (approval?.verdict === "deny" || approval?.verdict === "stop") return "denied";
  if (approval && !approval.verdict) return "asked";
  if (tool.ok === null) return "running";
  return tool.ok ? "done" : "failed";
}
