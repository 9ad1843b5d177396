// Renders Markdown as nodes.

import { inline, parseMarkdown } from "../markdown.js";
import { readable } from "../format.js";
import { component, html } from "../view.js";

/** @typedef {import("../markdown.js").Block} Block */
/** @typedef {import("../markdown.js").Inline} Inline */

/** @param {Inline[]} inside @returns {any} */
function drawInline(inside) {
  return inside.map((one) => {
    switch (one.type) {
      case "text":
        return one.text;
      case "code":
        return html`<code>${one.text}</code>`;
      case "strong":
        return html`<strong>${drawInline(one.inside)}</strong>`;
      case "em":
        return html`<em>${drawInline(one.inside)}</em>`;
      case "del":
        return html`<del>${drawInline(one.inside)}</del>`;
      case "break":
        return html`<br />`;
      default:
        return drawLink(one.url, one.inside);
    }
  });
}

/** Renders a link. It shows the host, unless its text does. @param {string} url @param {Inline[]} inside */
function drawLink(url, inside) {
  let host = "";
  try {
    host = new URL(url).host;
  } catch {
    return drawInline(inside);
  }
  const words = inside.map((one) => ("text" in one ? one.text : "")).join("");
  return html`<a href=${url} rel="noreferrer noopener" target="_blank">${drawInline(inside)}</a>${!words.includes(host) && html`<span class="host"> (${host})</span>`}`;
}

/** @param {Block} block @param {number} key @returns {any} */
function drawBlock(block, key) {
  switch (block.type) {
    case "heading":
      // The page itself uses the first two levels.
      return html`<p key=${key} class=${`heading level-${block.level}`} role="heading" aria-level=${Math.min(block.level + 2, 6)}>${drawInline(block.inside)}</p>`;
    case "paragraph":
      return html`<p key=${key}>${drawInline(block.inside)}</p>`;
    case "code":
      return html`<pre key=${key} class="code" tabindex="0" data-language=${block.language || null}><code>${block.text}</code></pre>`;
    case "quote":
      return html`<blockquote key=${key}>${block.inside.map(drawBlock)}</blockquote>`;
    case "rule":
      return html`<hr key=${key} />`;
    case "list":
      return html`<${block.ordered ? "ol" : "ul"} key=${key} start=${block.ordered ? block.start : undefined}>
        ${block.items.map(
          (item, index) =>
            html`<li key=${index} class=${item.checked === null ? "" : "task"}>${item.checked !== null && html`<span class="box" aria-hidden="true">${item.checked ? "☑" : "☐"}</span>`}${item.inside.map(drawBlock)}</li>`,
        )}
      <//>`;
    default:
      return html`<div key=${key} class="table-scroll" tabindex="0"><table><thead><tr>${block.head.map((cell, i) => html`<th key=${i} class=${block.align[i] ?? "start"}>${drawInline(cell)}</th>`)}</tr></thead>
        <tbody>${block.rows.map((row, r) => html`<tr key=${r}>${row.map((cell, i) => html`<td key=${i} class=${block.align[i] ?? "start"}>${drawInline(cell)}</td>`)}</tr>`)}</tbody></table></div>`;
  }
}

/** @type {import("../../vendor/preact.js").ComponentType<{text: string}>} */
export const Markdown = component(() => {
  return (props) => html`<div class="markdown">${parseMarkdown(readable(props.text)).map(drawBlock)}</div>`;
});

/** One line of text with inline formatting. @param {{text: string}} props */
export function Words({ text }) {
  return html`<span class="words">${drawInline(inline(readable(text)))}</span>`;
}
