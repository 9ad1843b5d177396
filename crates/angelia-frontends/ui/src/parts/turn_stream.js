// Follows the events of one turn: live while the tab is watched, resumed after the last event, and rendered
// at most once per frame.

import { ApiError, send } from "../api.js";
import { isWatched, whenWatched } from "../feed.js";
import { readEvents } from "../sse.js";
import { signal } from "../view.js";
import { EMPTY_TURN, reduceAll } from "../turn_view.js";

const RETRY_MS = 700;
const SILENCE_MS = 40000;
const MAX_KEPT_EVENTS = 30000;

/** Follows a turn until its end, or until `leave` is called. */
export class TurnStream {
  /** @type {import("../../vendor/signals.js").Signal<import("../turn_view.js").TurnView>} */
  view = signal(EMPTY_TURN);
  /** All events, for the page's event list. @type {import("../../vendor/signals.js").Signal<any[]>} */
  events = signal([]);
  #control = new AbortController();
  /** @type {any[]} */
  #arrived = [];
  #frame = 0;

  /** @param {string} turn */
  constructor(turn) {
    this.turn = turn;
    void this.#follow();
  }

  leave() {
    this.#control.abort();
    cancelAnimationFrame(this.#frame);
  }

  async #follow() {
    const { signal } = this.#control;
    while (!signal.aborted && !this.view.peek().finished) {
      // All tabs share the few connections that a browser opens to one address.
      await whenWatched();
      if (signal.aborted) return;
      const attempt = new AbortController();
      const stop = () => attempt.abort();
      signal.addEventListener("abort", stop);
      const unsubscribe = isWatched.subscribe((watched) => watched || stop());
      let timer = setTimeout(stop, SILENCE_MS);
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(stop, SILENCE_MS);
      };
      try {
        // Count events that have arrived, even if no frame has shown them yet.
        const after = this.#arrived.at(-1)?.seq ?? this.view.peek().seq;
        const response = await send(`/api/turns/${this.turn}/events?after=${after}`, { signal: attempt.signal });
        if (response.status === 204) return this.#draw();
        await readEvents(response, (events) => this.#take(events), alive);
      } catch (error) {
        if (error instanceof ApiError && error.status >= 400 && error.status < 500) return;
      } finally {
        clearTimeout(timer);
        unsubscribe();
        signal.removeEventListener("abort", stop);
      }
      this.#draw();
      if (!signal.aborted && !this.view.peek().finished) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /** @param {import("../sse.js").ServerEvent[]} events */
  #take(events) {
    for (const event of events) this.#arrived.push(JSON.parse(event.data));
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (!this.#arrived.length) return;
    const arrived = this.#arrived;
    this.#arrived = [];
    this.view.value = reduceAll(this.view.peek(), arrived);
    const kept = arrived.filter((event) => !event.type.endsWith(".delta"));
    if (kept.length) this.events.value = [...this.events.peek(), ...kept].slice(-MAX_KEPT_EVENTS);
  }
}
