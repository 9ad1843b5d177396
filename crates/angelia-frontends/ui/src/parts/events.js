// The events of the newest turn exactly as recorded.

import { visible } from "../format.js";
import { component, html, signal } from "../view.js";
import { t } from "../words.js";

const FIRST_EVENTS = 300;

/** @type {import("../../vendor/preact.js").ComponentType<{stream: import("./turn_stream.js").TurnStream | null}>} */
export const Events = component(() => {
  const kind = signal("all");
  return ({ stream }) => {
    const all = stream?.events.value ?? [];
    const wanted = kind.value === "native" ? all.filter((event) => event.type === "native") : all;
    return html`<section class="events" aria-label=${t("events")}>
      <header><h2>${t("events")}</h2>
        <label class="chip"><span class="unseen">${t("kind")}</span><select aria-label=${t("kind")} onChange=${(/** @type {any} */ event) => (kind.value = event.target.value)}><option value="all">${t("all_events")}</option><option value="native">${t("raw_events")}</option></select></label>
      </header>
      <ol>${wanted.slice(-FIRST_EVENTS).map((event) => html`<li key=${event.seq}><details><summary><span class="number faint">${event.seq}</span> ${event.type} <span class="faint">${visible(event.name ?? event.code ?? "")}</span></summary><pre tabindex="0">${visible(JSON.stringify(event, null, 2))}</pre></details></li>`)}</ol>
    </section>`;
  };
});
