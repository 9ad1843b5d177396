// The status of a turn: a shape, a colour and a word. It never depends on the colour alone.

import { html } from "../view.js";
import { t } from "../words.js";

/** @type {Record<string, [string, string]>} */
const LOOKS = {
  running: ["●", "busy"],
  queued: ["◌", "calm"],
  awaiting_approval: ["◐", "ask"],
  awaiting_tool_result: ["◑", "ask"],
  parked: ["◷", "ask"],
  completed: ["✓", "good"],
  partial: ["◒", "ask"],
  interrupted: ["■", "calm"],
  failed: ["✕", "bad"],
  new: ["○", "calm"],
};

/** @param {{status: string | null | undefined, brief?: boolean}} props */
export function Status({ status, brief = false }) {
  const word = status || "new";
  const [shape, look] = LOOKS[word] ?? ["?", "calm"];
  const name = t(`status_${word}`);
  return html`<span class=${`status ${look}`} title=${name}>
    <span class="shape" aria-hidden="true">${shape}</span>
    <span class=${brief ? "unseen" : "word"}>${name}</span>
  </span>`;
}
