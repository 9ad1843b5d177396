// The inbox: what waits for the owner. New cards appear only after pressing a button, so that no card ever
// moves under the pointer.

import { get } from "../api.js";
import { onReset } from "../feed.js";
import { ApprovalCard } from "../parts/card.js";
import { Empty, Skeleton } from "../parts/feedback.js";
import { route } from "../route.js";
import { approvals, isLoaded, waiting } from "../store.js";
import { component, computed, effect, html, signal } from "../view.js";
import { t } from "../words.js";

export const InboxPage = component((life) => {
  /** The ids of the shown cards. @type {import("../../vendor/signals.js").Signal<string[]>} */
  const shown = signal([]);
  const decidedTab = computed(() => route.value.filters.get("show") === "decided");
  const fresh = computed(() => waiting.value.filter((one) => !shown.value.includes(one.id)));
  const cards = computed(() => {
    const known = new Map(approvals.value.map((one) => [one.id, one]));
    return shown.value.map((id) => known.get(id)).filter(Boolean);
  });
  const showAll = () => (shown.value = waiting.peek().map((one) => one.id));
  /** @type {import("../../vendor/signals.js").Signal<any[] | null>} */
  const decided = signal(null);
  const readDecided = async () => {
    const all = await get("/api/approvals?all=1&limit=100").catch(() => ({ data: [] }));
    decided.value = all.data.filter((/** @type {any} */ one) => one.decided);
  };
  life.onMount(() => {
    const stops = [
      // Nothing can move while no card is shown.
      effect(() => {
        if (waiting.value.length && !cards.value.some((one) => !one.decided)) showAll();
      }),
      effect(() => {
        approvals.value;
        if (decidedTab.value) void readDecided();
      }),
      onReset(() => void readDecided()),
    ];
    return () => stops.forEach((stop) => stop());
  });

  const tabs = () => html`<nav class="tabs" aria-label=${t("inbox")}>
    <a href="#/inbox" aria-current=${decidedTab.value ? null : "page"}>${t("waiting")} <span class="count">${waiting.value.length}</span></a>
    <a href="#/inbox?show=decided" aria-current=${decidedTab.value ? "page" : null}>${t("decided")}</a>
  </nav>`;

  return () => html`<section class="page inbox">
    <div class="page-head"><h1>${t("inbox")}</h1>${tabs()}</div>
    ${!isLoaded.value && html`<${Skeleton} lines=${3} />`}
    ${decidedTab.value
      ? html`<div class="cards">${(decided.value ?? []).map((one) => html`<${ApprovalCard} key=${one.id} approval=${one} />`)}
          ${decided.value?.length === 0 && html`<${Empty} title=${t("nothing_decided")} />`}</div>`
      : html`<div class="cards">
          ${cards.value.map((one, place) => html`<${ApprovalCard} key=${one.id} approval=${one} place=${place} />`)}
          ${fresh.value.length > 0 && html`<button type="button" class="fresh" onClick=${showAll}>${t("fresh", fresh.value.length)}</button>`}
          ${isLoaded.value && !cards.value.length && !fresh.value.length && html`<${Empty} title=${t("nothing_waits")}><p>${t("nothing_waits_more")}</p><//>`}
        </div>`}
  </section>`;
});
