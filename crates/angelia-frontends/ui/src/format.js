// Formats numbers, times and untrusted text.

import { language, t } from "./words.js";
import { signal } from "./view.js";

/** The current time, updated once a second while the page is visible. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 1000);

/** @param {number | null | undefined} usd */
export function money(usd) {
  if (usd === null || usd === undefined) return "–";
  const digits = usd !== 0 && Math.abs(usd) < 0.01 ? 4 : 2;
  return `$${usd.toFixed(digits)}`;
}

/** @param {number} count */
export function tokens(count) {
  if (count < 1000) return String(count);
  if (count < 1e6) return `${trim(count / 1e3)}k`;
  if (count < 1e9) return `${trim(count / 1e6)}M`;
  return `${trim(count / 1e9)}G`;
}

/** @param {number} bytes */
export function bytes(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 ** 2) return `${trim(bytes / 1024)} KiB`;
  if (bytes < 1024 ** 3) return `${trim(bytes / 1024 ** 2)} MiB`;
  return `${trim(bytes / 1024 ** 3)} GiB`;
}

/** @param {number} value */
function trim(value) {
  return value < 10 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value));
}

/** @param {number | null | undefined} part of 1 */
export function percent(part) {
  return part === null || part === undefined || Number.isNaN(part) ? "–" : `${Math.round(part * 100)} %`;
}

/** Returns the share of a prompt that came from the cache. @param {{input_tokens: number, cache_read_tokens: number, cache_write_tokens: number}} usage */
export function cacheShare(usage) {
  const all = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
  return all ? usage.cache_read_tokens / all : null;
}

/** Formats a duration as `1:02:03`. @param {number} ms */
export function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${two(m)}:${two(s)}`;
}

/** Formats a duration as `2 min`. @param {number} ms */
export function span(ms) {
  const seconds = Math.round(Math.abs(ms) / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** Returns how long ago a time was. Reads `now`, so whatever shows it is rendered again. @param {string} time */
export function ago(time) {
  const ms = now.value - Date.parse(time);
  return ms < 5000 ? t("now") : t("ago", span(ms));
}

/** Formats a time: today as the time, this year as the day, else as the date. @param {string} time */
export function moment(time) {
  const at = new Date(time);
  const today = new Date();
  /** @type {Intl.DateTimeFormatOptions} */
  let options = { year: "numeric", month: "short", day: "numeric" };
  if (at.toDateString() === today.toDateString()) options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  else if (at.getFullYear() === today.getFullYear()) options = { month: "short", day: "numeric" };
  return new Intl.DateTimeFormat(language.value, options).format(at);
}

/** Formats the date and time, for a tooltip or a table. @param {string} time */
export function fullTime(time) {
  return new Intl.DateTimeFormat(language.value, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" }).format(new Date(time));
}

const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
// Direction marks, joiners, variation selectors, tags, and other invisible characters with a meaning.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** Removes terminal escape codes, and makes invisible characters visible. @param {string} text */
export function visible(text) {
  return text.replace(ESCAPES, "").replace(INVISIBLE, (mark) => {
    const code = /** @type {number} */ (mark.codePointAt(0));
    return `⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧`;
  });
}

/** Like `visible`, for running text: an emoji keeps its joiner and its variant. @param {string} text */
export function readable(text) {
  return visible(text.replace(/\r\n/g, "\n").replace(/\ufe0f/g, "").replace(/(\p{Extended_Pictographic})\u200d(?=\p{Extended_Pictographic})/gu, "$1"));
}

/** Returns the name under which a session is shown. @param {{title?: string | null, name?: string | null, first_words?: string | null, id: string}} session */
export function sessionName(session) {
  return readable(session.title || session.name || session.first_words || t("untitled"));
}

/** Makes the paths in a line relative to a folder. @param {string} text @param {string | undefined} folder */
export function seenFrom(text, folder) {
  return folder ? text.replaceAll(`${folder}/`, "") : text;
}

/** Shortens a path to its end. @param {string} path */
export function shortPath(path) {
  const home = path.replace(/^\/(?:home|Users)\/[^/]+/, "~").replace(/^\/root(?=\/|$)/, "~");
  const parts = home.split("/");
  return parts.length > 4 ? `…/${parts.slice(-2).join("/")}` : home;
}
