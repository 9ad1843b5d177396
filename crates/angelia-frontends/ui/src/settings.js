// The preferences that this browser remembers. Nothing here leaves the browser.

import { effect, signal } from "./view.js";

/**
 * @template T
 * @param {string} name
 * @param {T} first
 * @returns {import("../vendor/signals.js").Signal<T>}
 */
function remembered(name, first) {
  const key = `angelia.${name}`;
  /** @type {T} */
  let start = first;
  try {
    start = JSON.parse(localStorage.getItem(key) ?? "null") ?? first;
  } catch {
    // The stored value is not ours: keep the default.
  }
  const value = signal(start);
  effect(() => localStorage.setItem(key, JSON.stringify(value.value)));
  return value;
}

/** @type {import("../vendor/signals.js").Signal<"auto" | "en" | "zh">} */
export const chosenLanguage = remembered("language", /** @type {"auto" | "en" | "zh"} */ ("auto"));

/** @type {import("../vendor/signals.js").Signal<"auto" | "light" | "dark">} */
export const theme = remembered("theme", /** @type {"auto" | "light" | "dark"} */ ("auto"));

/** Off by default on a small screen, where the conversation comes first. */
export const showsChanges = remembered("changes", !globalThis.matchMedia?.("(max-width: 980px)").matches);
/** Whether the form for a new session is open; not remembered. */
export const startsSession = signal(false);

export const notifies = remembered("notifies", false);
export const lastProfile = remembered("profile", "");
export const lastFolder = remembered("folder", "");

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
