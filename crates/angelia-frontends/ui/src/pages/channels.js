// The chat platforms: the state of their connections, their backlogs, and who is waiting for access. Access
// is granted in a terminal, because it opens this machine to another person.

import { ago, readable, visible } from "../format.js";
import { Empty } from "../parts/feedback.js";
import { channels, isLoaded } from "../store.js";
import { component, html } from "../view.js";
import { t } from "../words.js";

/** @type {Record<string, [string, string]>} */
const LOOKS = { connected: ["●", "good"], connecting: ["◌", "busy"], retrying: ["◷", "ask"], refused: ["✕", "bad"] };

/** @param {any} one */
function channel(one) {
  const [shape, look] = LOOKS[one.state] ?? ["?", "calm"];
  return html`<tr key=${one.id}>
    <td class="name"><strong>${readable(one.id)}</strong></td>
    <td><span class=${`status ${look}`}><span class="shape" aria-hidden="true">${shape}</span> ${t(`channel_${one.state}`)}</span></td>
    <td>${one.last_event_at ? ago(one.last_event_at) : "–"}</td>
    <td class="end">${one.backlog}</td>
    <td class="bad-text">${one.last_error && visible(one.last_error)}</td></tr>`;
}

/** @param {any} code @param {string} platform */
function request(code, platform) {
  return html`<li key=${code.id} class="asking"><span><strong>${readable(code.name)}</strong> <span class="faint">${readable(platform)}:${readable(code.sender)} · ${ago(code.made_at)}</span></span><code>angelia access approve ${code.id}</code></li>`;
}

export const ChannelsPage = component(() => () => {
  const all = [...channels.value.values()].sort((a, b) => a.id.localeCompare(b.id));
  const asking = all.flatMap((one) => (one.codes ?? []).map((/** @type {any} */ code) => request(code, one.id)));
  return html`<section class="page channels"><div class="page-head"><h1>${t("channels")}</h1></div>
    ${isLoaded.value && all.length === 0 && html`<${Empty} title=${t("no_channels")}><p>${t("no_channels_more")} <code>angelia channels add telegram</code></p><//>`}
    ${asking.length > 0 && html`<section class="block"><div class="block-head"><h2>${t("asking")}</h2><span class="faint">${t("asking_more")}</span></div><ul class="rows">${asking}</ul></section>`}
    ${all.length > 0 && html`<section class="block"><div class="block-head"><h2>${t("connections")}</h2></div>
      <div class="table-scroll" tabindex="0"><table><thead><tr><th>${t("channel")}</th><th>${t("state")}</th><th>${t("last_event")}</th><th class="end">${t("backlog")}</th><th>${t("last_error")}</th></tr></thead><tbody>${all.map(channel)}</tbody></table></div></section>`}
  </section>`;
});
