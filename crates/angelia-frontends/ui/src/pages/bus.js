// The bus: the listeners, the waiting messages, the incoming ones, and those that could not be delivered.

import { call, get, send } from "../api.js";
import { isWatched, onChange, onReset } from "../feed.js";
import { ago, readable, visible } from "../format.js";
import { Empty, attempt, say } from "../parts/feedback.js";
import { route, setFilter } from "../route.js";
import { readEvents } from "../sse.js";
import { deadLetters, endpoints, hasBus, isLoaded } from "../store.js";
import { component, computed, effect, html, signal } from "../view.js";
import { t } from "../words.js";

const MAX_MESSAGES = 100;

/** @param {any} message */
function words(message) {
  const text = message.text ?? (typeof message.body === "string" ? message.body : (message.body?.text ?? JSON.stringify(message.body)));
  return visible(String(text ?? ""));
}

/** @param {{message: any, children?: any}} props */
function Message({ message, children }) {
  return html`<li class="message"><details><summary><span class="route">${readable(message.from ?? "–")} → ${readable(message.to ?? t("everyone"))}</span> <span class="faint first-words">${words(message).slice(0, 90)}</span></summary><pre tabindex="0">${words(message)}</pre>${message.reason && html`<p class="bad-text">${readable(message.reason)}</p>`}</details>${children}</li>`;
}

export const BusPage = component((life) => {
  const chosen = computed(() => route.value.filters.get("endpoint") ?? "");
  /** @type {import("../../vendor/signals.js").Signal<any[]>} */ const queued = signal([]);
  /** @type {import("../../vendor/signals.js").Signal<any[]>} */ const dead = signal([]);
  /** @type {import("../../vendor/signals.js").Signal<any[]>} */ const arrived = signal([]);
  const to = signal("");
  const text = signal("");
  const readDead = async () => {
    dead.value = (await get("/api/bus/dead?limit=100").catch(() => ({ data: [] }))).data;
    deadLetters.value = dead.value.length;
  };
  const readQueue = async () => {
    queued.value = chosen.peek() ? (await get(`/api/bus/messages?endpoint=${encodeURIComponent(chosen.peek())}`).catch(() => ({ data: [] }))).data : [];
  };

  /** Follows incoming messages. @param {AbortSignal} signal */
  const listen = async (signal) => {
    const take = (/** @type {import("../sse.js").ServerEvent[]} */ events) => {
      const messages = events.filter((one) => one.event === "message").map((one) => ({ ...JSON.parse(one.data), at: new Date().toISOString() }));
      arrived.value = [...messages, ...arrived.peek()].slice(0, MAX_MESSAGES);
    };
    const response = await send("/api/bus/events", { signal }).catch(() => null);
    if (response) await readEvents(response, take).catch(() => {});
  };

  life.onMount(() => {
    let control = new AbortController();
    void readDead();
    const watched = isWatched.subscribe((now) => {
      control.abort();
      control = new AbortController();
      if (now) void listen(control.signal);
    });
    const stops = [watched, effect(() => (chosen.value, void readQueue())), onChange("bus.changed", () => (void readQueue(), void readDead())), onReset(() => void readDead())];
    return () => (control.abort(), stops.forEach((stop) => stop()));
  });

  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    void attempt(async () => {
      const sent = await call("POST", "/api/bus/messages", { to: to.peek().trim(), text: text.peek() });
      say(sent.queued ? (sent.seen ? t("queued") : t("queued_unseen")) : t("delivered"));
      text.value = "";
    });
  };
  const resend = (/** @type {string} */ id) => attempt(async () => (await call("POST", `/api/bus/dead/${id}/resend`), say(t("resent")), await readDead()));
  const discard = (/** @type {string} */ id) => attempt(async () => (await call("DELETE", `/api/bus/dead/${id}`), await readDead()));

  return () => {
    if (isLoaded.value && !hasBus.value) return html`<section class="page"><h1>${t("bus")}</h1><${Empty} title=${t("no_bus")}><p><code>angelia bus status</code></p><//></section>`;
    const all = [...endpoints.value.values()].sort((a, b) => a.id.localeCompare(b.id));
    return html`<section class="page bus">
      <div class="page-head"><h1>${t("bus")}</h1></div>
      <div class="two">
        <div>
          <section class="block"><div class="block-head"><h2>${t("dead")}</h2><span class="count">${dead.value.length}</span></div>
            ${dead.value.length === 0 && html`<p class="faint">${t("no_dead")}</p>`}
            <ul class="messages">${dead.value.map((one) => html`<${Message} key=${one.id} message=${one}><span class="message-tools"><span class="faint">${ago(one.at)}</span><button type="button" onClick=${() => resend(one.id)}>${t("resend")}</button><button type="button" class="quiet" onClick=${() => discard(one.id)}>${t("discard")}</button></span><//>`)}</ul>
          </section>
          <section class="block"><div class="block-head"><h2>${t("arriving")}</h2></div>
            ${arrived.value.length === 0 && html`<p class="faint">${t("nothing_arrives")}</p>`}
            <ul class="messages">${arrived.value.map((one) => html`<${Message} key=${one.id + one.at} message=${one}><span class="faint">${ago(one.at)}</span><//>`)}</ul>
          </section>
        </div>
        <section class="block"><div class="block-head"><h2>${t("endpoints")}</h2></div>
          ${all.length === 0 && html`<${Empty} title=${t("no_endpoints")}><p><code>angelia bus listen NAME</code></p><//>`}
          <ul class="rows endpoints">${all.map((one) => html`<li key=${one.id}><button type="button" class="row-button" aria-pressed=${chosen.value === one.id ? "true" : "false"} onClick=${() => setFilter("endpoint", chosen.peek() === one.id ? "" : one.id)}><span class=${one.listening ? "status good" : "status calm"}><span class="shape" aria-hidden="true">${one.listening ? "●" : "○"}</span></span><span>${readable(one.id)}</span><span class="faint">${one.listening ? t("listening") : t("away")}</span><span class="number">${one.queued ? t("queued_count", one.queued) : ""}</span></button></li>`)}</ul>
          ${chosen.value && html`<h3>${t("waits_for", readable(chosen.value))}</h3><ul class="messages">${queued.value.map((one) => html`<${Message} key=${one.id} message=${one}><span class="faint">${t(`message_${one.state}`)} · ${ago(one.at)}</span><//>`)}</ul>${queued.value.length === 0 && html`<p class="faint">${t("nothing_queued")}</p>`}`}
          <form class="send-form" onSubmit=${submit}><h3>${t("send_message")}</h3>
            <label>${t("to")}<input type="text" required list="endpoints" autocomplete="off" spellcheck="false" value=${to.value} onInput=${(/** @type {any} */ event) => (to.value = event.target.value)} /></label>
            <datalist id="endpoints">${all.map((one) => html`<option key=${one.id} value=${one.id}></option>`)}</datalist>
            <label>${t("message")}<textarea rows="2" required value=${text.value} onInput=${(/** @type {any} */ event) => (text.value = event.target.value)}></textarea></label>
            <div class="buttons"><button type="submit">${t("send")}</button></div>
          </form>
        </section>
      </div>
    </section>`;
  };
});
