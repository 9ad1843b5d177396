// Parses Markdown into a tree of plain objects: headings, lists, code, tables, quotes, links. Nothing in it
// ever becomes markup: text stays text, an image becomes its description, and a link shows its target.

/**
 * @typedef {{type: "text", text: string} | {type: "code", text: string} | {type: "strong" | "em" | "del", inside: Inline[]} | {type: "link", url: string, inside: Inline[]} | {type: "break"}} Inline
 * @typedef {{type: "heading", level: number, inside: Inline[]} | {type: "paragraph", inside: Inline[]} | {type: "code", language: string, text: string} | {type: "quote", inside: Block[]} | {type: "list", ordered: boolean, start: number, items: {checked: boolean | null, inside: Block[]}[]} | {type: "table", head: Inline[][], rows: Inline[][][], align: string[]} | {type: "rule"}} Block
 */

const MAX_DEPTH = 8;

/** @param {string} text @returns {Block[]} */
export function parseMarkdown(text) {
  return blocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const DELIMITER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/** @param {string[]} lines @param {number} depth @returns {Block[]} */
function blocks(lines, depth) {
  /** @type {Block[]} */
  const found = [];
  let at = 0;
  const line = (/** @type {number} */ index) => lines[index] ?? "";
  while (at < lines.length) {
    const now = line(at);
    if (now.trim() === "") {
      at += 1;
      continue;
    }
    const fence = FENCE.exec(now);
    if (fence) {
      const mark = fence[1] ?? "```";
      let end = at + 1;
      while (end < lines.length && !isClosing(line(end), mark)) end += 1;
      found.push({ type: "code", language: fence[2] ?? "", text: lines.slice(at + 1, end).join("\n") });
      at = end + 1;
      continue;
    }
    const heading = HEADING.exec(now);
    if (heading) {
      found.push({ type: "heading", level: heading[1]?.length ?? 1, inside: inline(heading[2] ?? "") });
      at += 1;
    } else if (RULE.test(now)) {
      found.push({ type: "rule" });
      at += 1;
    } else if (/^ {0,3}>/.test(now) && depth < MAX_DEPTH) {
      let end = at;
      while (end < lines.length && /^ {0,3}>/.test(line(end))) end += 1;
      const inside = lines.slice(at, end).map((one) => one.replace(/^ {0,3}> ?/, ""));
      found.push({ type: "quote", inside: blocks(inside, depth + 1) });
      at = end;
    } else if (ITEM.test(now) && depth < MAX_DEPTH) {
      const list = readList(lines, at, depth);
      found.push(list.block);
      at = list.end;
    } else if (now.includes("|") && at + 1 < lines.length && DELIMITER.test(line(at + 1)) && line(at + 1).includes("-")) {
      let end = at + 2;
      while (end < lines.length && line(end).includes("|") && line(end).trim() !== "") end += 1;
      found.push(table(lines.slice(at, end)));
      at = end;
    } else {
      let end = at + 1;
      while (end < lines.length && continuesParagraph(line(end))) end += 1;
      found.push({ type: "paragraph", inside: inline(lines.slice(at, end).map((one) => one.trimStart()).join("\n")) });
      at = end;
    }
  }
  return found;
}

/** @param {string} line @param {string} mark */
function isClosing(line, mark) {
  const closing = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(line)?.[1];
  return closing !== undefined && closing[0] === mark[0] && closing.length >= mark.length;
}

/** @param {string} line */
function continuesParagraph(line) {
  return line.trim() !== "" && !FENCE.test(line) && !HEADING.test(line) && !RULE.test(line) && !/^ {0,3}>/.test(line) && !ITEM.test(line);
}

/** @param {string[]} lines @param {number} start @param {number} depth @returns {{block: Block, end: number}} */
function readList(lines, start, depth) {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[start] ?? ""));
  const ordered = /\d/.test(first[2] ?? "");
  const items = [];
  let at = start;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at] ?? "");
    if (!item || /\d/.test(item[2] ?? "") !== ordered || RULE.test(lines[at] ?? "")) break;
    const width = (item[1] ?? "").length + (item[2] ?? "").length + Math.min((item[3] ?? " ").length || 1, 4);
    const inside = [item[4] ?? ""];
    at += 1;
    while (at < lines.length) {
      const next = lines[at] ?? "";
      const indented = next.length - next.trimStart().length >= Math.min(width, 2);
      const blank = next.trim() === "";
      if (blank && !((lines[at + 1] ?? "").startsWith("  "))) break;
      if (!blank && !indented && (!continuesParagraph(next) || inside.at(-1) === "")) break;
      inside.push(blank ? "" : next.replace(new RegExp(`^ {1,${width}}`), ""));
      at += 1;
    }
    const task = /^\[([ xX])\] (.*)$/.exec(inside[0] ?? "");
    if (task) inside[0] = task[2] ?? "";
    items.push({ checked: task ? task[1] !== " " : null, inside: blocks(inside, depth + 1) });
    let skip = at;
    while (skip < lines.length && (lines[skip] ?? "").trim() === "") skip += 1;
    if (skip > at && !ITEM.test(lines[skip] ?? "")) break;
    at = skip;
  }
  return { block: { type: "list", ordered, start: parseInt(first[2] ?? "1", 10) || 1, items }, end: at };
}

/** @param {string} row */
function cells(row) {
  return row.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

/** @param {string[]} lines @returns {Block} */
function table(lines) {
  const [head = "", delimiter = "", ...rows] = lines;
  const align = cells(delimiter).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : "start"));
  return { type: "table", head: cells(head).map(inline), rows: rows.map((row) => cells(row).map(inline)), align };
}

const INLINE = /(\\[!-/:-@[-`{-~])|(`+)(?!`)([\s\S]*?[^`])\2(?!`)|!\[([^\]\n]*)\]\([^)\s]*(?:\s+"[^"]*")?\)|\[((?:[^\][\n]|\[[^\]\n]*\])*)\]\(<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+"[^"]*")?\)|<(https?:\/\/[^\s<>]+)>|(https?:\/\/[^\s<>()]*[^\s<>().,;:!?'"\]])|(\*\*|__)(?=\S)([\s\S]*?\S)\9|~~(?=\S)([\s\S]*?\S)~~|\*(?=[^\s*])([\s\S]*?[^\s*])\*(?!\*)|(?<![\p{L}\p{N}])_(?=[^\s_])([\s\S]*?[^\s_])_(?![\p{L}\p{N}])|( {2,}\n|\\\n)/u;

/** @param {string} text @param {number} [depth] @returns {Inline[]} */
export function inline(text, depth = 0) {
  /** @type {Inline[]} */
  const found = [];
  let rest = text;
  const push = (/** @type {string} */ words) => {
    const last = found.at(-1);
    if (words === "") return;
    if (last?.type === "text") last.text += words;
    else found.push({ type: "text", text: words });
  };
  while (rest) {
    const match = depth < MAX_DEPTH ? INLINE.exec(rest) : null;
    if (!match) break;
    push(rest.slice(0, match.index));
    rest = rest.slice(match.index + match[0].length);
    const [whole, escaped, , code, picture, label, url, angle, bare, , strong, del, star, under, hard] = match;
    if (escaped) push(escaped.slice(1));
    else if (code !== undefined) found.push({ type: "code", text: code.replace(/\n/g, " ").replace(/^ (.*\S.*) $/, "$1") });
    else if (picture !== undefined) push(picture);
    else if (label !== undefined && url !== undefined) found.push(link(url, inline(label, depth + 1), whole));
    else if (angle || bare) found.push(link(angle || bare || "", [{ type: "text", text: angle || bare || "" }], whole));
    else if (strong !== undefined) found.push({ type: "strong", inside: inline(strong, depth + 1) });
    else if (del !== undefined) found.push({ type: "del", inside: inline(del, depth + 1) });
    else if (star !== undefined || under !== undefined) found.push({ type: "em", inside: inline(star ?? under ?? "", depth + 1) });
    else if (hard) found.push({ type: "break" });
  }
  push(rest);
  return found;
}

/** Only web addresses become links. @param {string} url @param {Inline[]} inside @param {string} whole @returns {Inline} */
function link(url, inside, whole) {
  return /^https?:\/\//i.test(url) ? { type: "link", url, inside } : { type: "text", text: whole };
}
