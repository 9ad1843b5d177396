// Shows a diff line by line, with signs and colours.

import { visible } from "../format.js";
import { component, html, signal } from "../view.js";
import { t } from "../words.js";

const SIGNS = { same: " ", added: "+", removed: "−", hunk: "", note: "" };
const FIRST_LINES = 400;

/** @typedef {{lines: import("../diff.js").DiffLine[], label: string}} DiffProps */

/** @type {import("../../vendor/preact.js").ComponentType<DiffProps>} */
export const Diff = component(() => {
  const limit = signal(FIRST_LINES);
  return ({ lines, label }) => html`<div class="diff" role="group" aria-label=${label} tabindex="0">
    ${lines.slice(0, limit.value).map(
      (line, index) =>
        html`<div key=${index} class=${`line ${line.kind}`}><span class="sign" aria-hidden="true">${SIGNS[line.kind]}</span>${line.kind === "added" ? html`<ins>${visible(line.text) || " "}</ins>` : line.kind === "removed" ? html`<del>${visible(line.text) || " "}</del>` : html`<span>${line.kind === "hunk" && !line.text ? "⋯" : visible(line.text) || " "}</span>`}</div>`,
    )}
    ${lines.length > limit.value &&
    html`<button type="button" class="quiet" onClick=${() => (limit.value = lines.length)}>${t("more_lines", lines.length - limit.value)}</button>`}
  </div>`;
});
