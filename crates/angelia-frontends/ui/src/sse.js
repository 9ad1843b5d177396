// Reads server-sent events from the body of a response. Pure except for the reading itself.

/** @typedef {{id: string, event: string, data: string}} ServerEvent */

/** Takes text in arbitrary pieces and returns complete events. */
export class EventParser {
  #rest = "";
  #id = "";

  /** @param {string} text @returns {ServerEvent[]} */
  push(text) {
    this.#rest += text;
    /** @type {ServerEvent[]} */
    const events = [];
    for (;;) {
      const end = this.#rest.indexOf("\n\n");
      if (end < 0) return events;
      const event = this.#parse(this.#rest.slice(0, end));
      this.#rest = this.#rest.slice(end + 2);
      if (event) events.push(event);
    }
  }

  /** @param {string} block */
  #parse(block) {
    let event = "message";
    const data = [];
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      const value = line.slice(colon + 1).replace(/^ /, "");
      const field = line.slice(0, colon);
      if (field === "id") this.#id = value;
      else if (field === "event") event = value;
      else if (field === "data") data.push(value);
    }
    return data.length ? { id: this.#id, event, data: data.join("\n") } : null;
  }
}

/**
 * Follows a stream to its end.
 * @param {Response} response
 * @param {(events: ServerEvent[]) => void} take
 * @param {() => void} [alive]  Called whenever anything arrives, including keep-alive comments.
 */
export async function readEvents(response, take, alive) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive?.();
    const events = parser.push(decoder.decode(value, { stream: true }));
    if (events.length) take(events);
  }
}
