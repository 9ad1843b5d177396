// The texts of the page, in the browser's language or in the chosen one.

import { chosenLanguage } from "./settings.js";
import { computed, effect, signal } from "./view.js";
import { ENGLISH } from "./words_en.js";

/** @typedef {keyof typeof ENGLISH} Word */

/** @type {import("../vendor/signals.js").ReadonlySignal<"en" | "zh">} */
const wanted = computed(() => {
  if (chosenLanguage.value !== "auto") return chosenLanguage.value;
  return navigator.languages.some((one) => one.toLowerCase().startsWith("zh")) && !navigator.languages[0]?.startsWith("en") ? "zh" : "en";
});

/** The Chinese texts, once they are loaded. @type {import("../vendor/signals.js").Signal<Record<string, string> | null>} */
const chinese = signal(null);
effect(() => {
  if (wanted.value === "zh" && !chinese.peek()) void import("./words_zh.js").then(({ CHINESE }) => (chinese.value = CHINESE));
});

/** The language of the texts. @type {import("../vendor/signals.js").ReadonlySignal<"en" | "zh">} */
export const language = computed(() => (wanted.value === "zh" && chinese.value ? "zh" : "en"));

/**
 * Returns a text with `{0}`, `{1}` … replaced by the values. An unknown name, such as a state that only a
 * newer daemon has, is shown as it is.
 * @param {string} name
 * @param {...(string | number)} values
 */
export function t(name, ...values) {
  const texts = /** @type {Record<string, string>} */ (language.value === "zh" ? chinese.value : ENGLISH);
  const text = texts[name] ?? /** @type {Record<string, string>} */ (ENGLISH)[name] ?? (name.startsWith("state_") ? String(values[0] ?? name) : name.replaceAll("_", " "));
  return text.replace(/\{(\d)\}/g, (_, at) => String(values[Number(at)] ?? ""));
}
