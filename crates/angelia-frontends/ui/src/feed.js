// The change feed: one stream for this tab while it is visible, resumed where it stopped. It keeps everything
// that the page shows up to date, and the page shows its state.

import { send, token } from "./api.js";
import { readEvents } from "./sse.js";
import { effect, signal } from "./view.js";

const HIDDEN_GRACE_MS = 5000;
const SILENCE_MS = 40000;
const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 15000;

/** @type {import("../vendor/signals.js").Signal<"connecting" | "live" | "lost" | "paused">} */
export const connection = signal("connecting");

/** Whether this tab is visible, or was a moment ago. */
export const isWatched = signal(true);

/** Waits until this tab is visible. @returns {Promise<void>} */
export function whenWatched() {
  if (isWatched.peek()) return Promise.resolve();
  return new Promise((resolve) => {
    const stop = isWatched.subscribe((watched) => {
      if (watched) queueMicrotask(() => (stop(), resolve()));
    });
  });
}

/** @type {Map<string, Set<(resource: any) => void>>} */
const listeners = new Map();
let lastId = "";
/** @type {AbortController | null} */
let current = null;

/** Calls `take` with the resource of each event of this name. @param {string} name @param {(resource: any) => void} take */
export function onChange(name, take) {
  const known = listeners.get(name) ?? new Set();
  listeners.set(name, known.add(take));
  return () => void known.delete(take);
}

/** Calls `take` when everything on the screen must be read again. @param {() => void} take */
export function onReset(take) {
  return onChange("reset", take);
}

/** @param {string} name @param {any} resource */
function tell(name, resource) {
  for (const take of listeners.get(name) ?? []) take(resource);
}

/** Events that arrived during a read. @type {import("./sse.js").ServerEvent[]} */
let held = [];
let reads = 0;

/** Reads something that the feed keeps up to date, and stores it. Events that arrive meanwhile are applied afterwards: otherwise an older response would undo them. @template T @param {() => Promise<T>} read */
export async function readFollowed(read) {
  reads += 1;
  try {
    return await read();
  } finally {
    reads -= 1;
    take([]);
  }
}

/** @param {import("./sse.js").ServerEvent[]} events */
function take(events) {
  lastId = events.at(-1)?.id ?? lastId;
  held.push(...events);
  while (reads === 0) {
    const event = held.shift();
    if (!event) return;
    tell(event.event, JSON.parse(event.data));
  }
}

/** @param {AbortController} control */
async function follow(control) {
  let delay = FIRST_DELAY_MS;
  while (!control.signal.aborted) {
    // A stream that is silent for this long is dead: the daemon writes a comment every 15 s.
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    control.signal.addEventListener("abort", stop);
    let timer = 0;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
    };
    try {
      alive();
      const headers = /** @type {Record<string, string>} */ (lastId ? { "Last-Event-ID": lastId } : {});
      const response = await send("/api/events", { headers, signal: attempt.signal });
      connection.value = "live";
      delay = FIRST_DELAY_MS;
      await readEvents(response, take, alive);
    } catch {
      // Retried below. An invalid token has already signed this browser out.
    }
    clearTimeout(timer);
    control.signal.removeEventListener("abort", stop);
    if (control.signal.aborted || !token.peek()) return;
    connection.value = "lost";
    await pause(delay * (0.75 + Math.random() / 2), control.signal);
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  }
}

/** @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve(null)), { once: true });
  });
}

function open() {
  if (current || !token.peek()) return;
  current = new AbortController();
  connection.value = "connecting";
  void follow(current);
}

/** @param {"paused" | "connecting"} state */
function close(state) {
  current?.abort();
  current = null;
  connection.value = state;
}

/** Follows the feed while this browser is signed in and the tab is visible. */
export function startFeed() {
  let timer = 0;
  const look = () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") {
      isWatched.value = true;
      open();
    } else {
      timer = setTimeout(() => {
        isWatched.value = false;
        close("paused");
      }, HIDDEN_GRACE_MS);
    }
  };
  document.addEventListener("visibilitychange", look);
  effect(() => {
    if (token.value) look();
    else close("connecting");
  });
}
