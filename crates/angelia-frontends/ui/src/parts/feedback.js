// Messages that disappear on their own: what happened, or what failed and what to do about it.

import { component, html, signal } from "../view.js";
import { t } from "../words.js";

/** @type {import("../../vendor/signals.js").Signal<{text: string, hint: string | null, bad: boolean} | null>} */
const message = signal(null);
let timer = 0;

/** @param {string} text */
export function say(text) {
  show({ text, hint: null, bad: false }, 4000);
}

/** @param {any} error */
export function complain(error) {
  const text = error?.kind === "unreachable" ? t("unreachable") : String(error?.message ?? error);
  show({ text, hint: error?.hint ?? null, bad: true }, 10000);
}

/** @param {{text: string, hint: string | null, bad: boolean}} next @param {number} ms */
function show(next, ms) {
  message.value = next;
  clearTimeout(timer);
  timer = setTimeout(() => (message.value = null), ms);
}

/**
 * Runs a person's action, and shows an error if it fails.
 * @template T
 * @param {() => Promise<T>} action
 * @returns {Promise<T | undefined>}
 */
export async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    complain(error);
    return undefined;
  }
}

export const Feedback = component(() => () => {
  const now = message.value;
  return html`<div class="toasts" role="status" aria-live="polite">
    ${now &&
    html`<div class=${now.bad ? "toast bad" : "toast"}>
      <span>${now.text}${now.hint && html` <span class="hint">${now.hint}</span>`}</span>
      <button type="button" class="quiet" aria-label=${t("close")} onClick=${() => (message.value = null)}>×</button>
    </div>`}
  </div>`;
});

/** @param {{title: string, children?: any}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${children}</div>`;
}

/** @param {{lines?: number}} props */
export function Skeleton({ lines = 6 }) {
  return html`<div class="skeleton" aria-hidden="true">${Array.from({ length: lines }, (_, i) => html`<div key=${i}></div>`)}</div>`;
}
