// The icons, as shapes in a 16 × 16 box. They are only decoration: the words next to them give the meaning.

import { html } from "../view.js";

const SHAPES = {
  inbox: "M2 9.500 4 3h8l2 6.500V13H2zM2 9.500h3.500l1 1.500h3l1-1.500H14",
  sessions: "M2.500 3h11v8h-6l-3 2.500V11h-2zM5 6h6M5 8.500h4",
  live: "M1.500 8h3l2-5 3 10 2-5h3",
  costs: "M2 13.500h12M4 11V7M7 11V4M10 11V8M13 11V5.500",
  bus: "M3 4.500h10M3 8h10M3 11.500h10M5.500 3v3M10.500 6.500v3M7 10v3",
  agents: "M4 5h8v7H4zM6 5V3h4v2M6.500 8v1M9.500 8v1M2 8v2M14 8v2",
  channels: "M2 3.500h8v5.500H6L3.500 11V9H2zM12 6h2v6h-1.500v2L10 12H7.500v-1",
  schedules: "M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11M8 5v3.200l2.200 1.300",
  settings: "M2 4.500h6M11.500 4.500H14M2 8h2.500M8 8h6M2 11.500h7M12.500 11.500H14M8.500 3v3M5 6.500v3M9.500 10v3",
  search: "M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9M10.300 10.300 13.500 13.500",
  plus: "M8 3v10M3 8h10",
  stop: "M4 4h8v8H4z",
  fork: "M4 2.500v4.500a2 2 0 0 0 2 2h4a2 2 0 0 1 2 2v2.500M4 9v4.500M10.500 12 12 13.500 13.500 12",
  trash: "M3 4.500h10M6 4.500V3h4v1.500M4.500 4.500l.5 9h6l.5-9",
  edit: "M3 13l.6-2.600L10.700 3.300l2 2L5.600 12.400z",
  send: "M2.500 8 13.500 3 11 13 7.500 9.500zM7.500 9.500 13.500 3",
  check: "M3 8.500 6.500 12 13 4.500",
  cross: "M4 4l8 8M12 4l-8 8",
  tool: "M9.500 6.500 3.500 12.500M9.200 3.200a3 3 0 0 0 3.600 3.600L14 5.500 10.500 2z",
  warn: "M8 2.500 14 13H2zM8 6.500v3M8 11v.3",
  back: "M10 3 5 8l5 5",
  refresh: "M13 8a5 5 0 1 1-1.600-3.700M13 2.500v3h-3",
};

/** @typedef {keyof typeof SHAPES} IconName */

/** @param {{name: IconName}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${SHAPES[name]} /></svg>`;
}
