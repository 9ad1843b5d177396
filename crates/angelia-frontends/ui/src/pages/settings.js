// This browser's preferences, the signed-in browsers, the keys, the configuration with the origin of each
// value, and what was sent to channels. Keys and configuration are shown here but changed in a terminal.

import { call, get, setToken } from "../api.js";
import { onChange, onReset, readFollowed } from "../feed.js";
import { ago, money, readable, visible } from "../format.js";
import { Skeleton, attempt, say } from "../parts/feedback.js";
import { chosenLanguage, notifies, theme } from "../settings.js";
import { component, computed, html, signal } from "../view.js";
import { t } from "../words.js";

const MAX_DELIVERIES = 20;

/** Returns every value with its path. @param {any} value @param {string} path @param {[string, any][]} found @returns {[string, any][]} */
function flatten(value, path, found) {
  if (value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length) {
    for (const [key, inner] of Object.entries(value)) flatten(inner, path ? `${path}.${key}` : key, found);
  } else found.push([path, value]);
  return found;
}

export const SettingsPage = component((life) => {
  /** @type {import("../../vendor/signals.js").Signal<any>} */ const data = signal(null);
  const search = signal("");
  const onlySet = signal(true);
  const read = async () => {
    const [browsers, keys, config, deliveries, audit] = await Promise.all(["login/browsers", "keys", "config", `deliveries?limit=${MAX_DELIVERIES}`, "audit?limit=20"].map((path) => get(`/api/${path}`)));
    data.value = { browsers: browsers.data, keys: keys.data, config, deliveries: deliveries.data, audit: audit.data };
  };
  const showDelivery = (/** @type {any} */ delivery) => {
    if (!data.peek()) return;
    const known = data.peek().deliveries;
    const at = known.findIndex((/** @type {any} */ one) => one.id === delivery.id);
    const rest = known.filter((/** @type {any} */ one) => one.id !== delivery.id);
    const deliveries = delivery.deleted ? rest : at < 0 ? [delivery, ...rest].slice(0, MAX_DELIVERIES) : known.with(at, delivery);
    data.value = { ...data.peek(), deliveries };
  };
  life.onMount(() => {
    const readAll = () => void attempt(() => readFollowed(read));
    readAll();
    const stops = [onChange("delivery.changed", showDelivery), onReset(readAll)];
    return () => stops.forEach((stop) => stop());
  });
  const settings = computed(() => {
    const { config } = data.value ?? {};
    if (!config) return [];
    const word = search.value.toLowerCase();
    return flatten(config.settings, "", [])
      .map(([path, value]) => ({ path, value: JSON.stringify(value), origin: config.origins[path] ?? "default" }))
      .filter((one) => (!word || one.path.toLowerCase().includes(word)) && (!onlySet.value || one.origin !== "default"));
  });

  const revoke = (/** @type {any} */ browser) =>
    attempt(async () => {
      await call("DELETE", `/api/login/browsers/${browser.id}`);
      if (browser.current) setToken(null);
      else await read();
      say(t("revoked"));
    });
  const notify = async (/** @type {any} */ event) => {
    notifies.value = event.target.checked && (await Notification.requestPermission()) === "granted";
    if (notifies.peek()) void import("../notify.js").then(({ startNotifications }) => startNotifications());
    event.target.checked = notifies.peek();
  };
  const choice = (/** @type {string} */ label, /** @type {import("../../vendor/signals.js").Signal<any>} */ value, /** @type {string[]} */ words) => html`<label>${label}<select onChange=${(/** @type {any} */ event) => (value.value = event.target.value)}>${words.map((one) => html`<option key=${one} value=${one} selected=${value.value === one}>${t(`choice_${one}`)}</option>`)}</select></label>`;

  const browserTable = () => html`<section class="block"><div class="block-head"><h2>${t("browsers")}</h2><span class="faint">${t("browsers_more")}</span></div>
    <div class="table-scroll tall" tabindex="0"><table><thead><tr><th>${t("name")}</th><th>${t("used")}</th><th>${t("signed_in")}</th><th><span class="unseen">${t("action")}</span></th></tr></thead>
      <tbody>${data.value.browsers.map((/** @type {any} */ one) => html`<tr key=${one.id}><td>${readable(one.name)} ${one.current && html`<span class="tag done">${t("this_one")}</span>`}</td><td>${ago(one.used_at)}</td><td>${ago(one.created_at)}</td><td class="end"><button type="button" onClick=${() => revoke(one)}>${one.current ? t("sign_out") : t("revoke")}</button></td></tr>`)}</tbody></table></div></section>`;

  const keyTable = () => html`<section class="block"><div class="block-head"><h2>${t("keys")}</h2></div>
    ${data.value.keys.length === 0 ? html`<p class="faint">${t("no_keys")} <code>angelia keys add NAME</code></p>` : html`<div class="table-scroll" tabindex="0"><table><thead><tr><th>${t("name")}</th><th>${t("may_use")}</th><th class="end">${t("today")}</th><th class="end">${t("per_day")}</th></tr></thead>
      <tbody>${data.value.keys.map((/** @type {any} */ one) => html`<tr key=${one.id}><td>${readable(one.id)}</td><td>${one.profiles === null ? t("everything") : one.profiles.join(", ")}${one.agent_mode && html` <span class="tag asked">${t("agent_mode")}</span>`}</td><td class="end">${money(one.spent_today_usd)}</td><td class="end">${one.max_cost_usd_per_day === null ? "–" : money(one.max_cost_usd_per_day)}</td></tr>`)}</tbody></table></div>`}</section>`;

  const configTable = () => {
    const { config } = data.value;
    return html`<section class="block"><div class="block-head"><h2>${t("configuration")}</h2><code class="faint">${visible(config.path)}</code></div>
      ${config.error && html`<p class="problem">${readable(config.error)}</p>`}
      ${config.waiting.length > 0 && html`<p class="problem">${t("waits_for_reload", config.waiting.join(", "))} <code>angelia config reload</code></p>`}
      <div class="fields"><label>${t("find_setting")}<input type="text" value=${search.value} onInput=${(/** @type {any} */ event) => (search.value = event.target.value)} /></label>
        <label class="check"><input type="checkbox" checked=${onlySet.value} onChange=${(/** @type {any} */ event) => (onlySet.value = event.target.checked)} /> ${t("only_set")}</label></div>
      <div class="table-scroll tall" tabindex="0"><table class="config"><thead><tr><th>${t("setting")}</th><th>${t("value")}</th><th>${t("from")}</th></tr></thead>
        <tbody>${settings.value.map((one) => html`<tr key=${one.path}><td><code>${visible(one.path)}</code></td><td><code>${visible(one.value)}</code></td><td class=${one.origin === "default" ? "faint" : ""}>${visible(one.origin)}</td></tr>`)}</tbody></table></div></section>`;
  };

  const lists = () => html`<section class="block"><div class="block-head"><h2>${t("deliveries")}</h2></div>
      ${data.value.deliveries.length === 0 ? html`<p class="faint">${t("no_deliveries")}</p>` : html`<div class="table-scroll" tabindex="0"><table><tbody>${data.value.deliveries.map((/** @type {any} */ one) => html`<tr key=${one.id}><td><span class=${`tag ${one.status}`}>${t(`delivery_${one.status}`)}</span></td><td>${readable(one.channel)}</td><td class="name">${visible(one.text).slice(0, 120)}</td><td class="end">${ago(one.created_at)}</td></tr>`)}</tbody></table></div>`}</section>
    <section class="block"><div class="block-head"><h2>${t("audit")}</h2></div><div class="table-scroll" tabindex="0"><table><tbody>${data.value.audit.map((/** @type {any} */ one) => html`<tr key=${one.id}><td>${ago(one.at)}</td><td>${readable(one.who)}</td><td>${readable(one.action)}</td><td class="name">${visible(one.what)}</td></tr>`)}</tbody></table></div></section>`;

  return () => html`<section class="page settings"><div class="page-head"><h1>${t("settings")}</h1></div>
    <section class="block"><div class="block-head"><h2>${t("this_browser")}</h2></div>
      <div class="fields">${choice(t("language"), chosenLanguage, ["auto", "en", "zh"])}${choice(t("appearance"), theme, ["auto", "light", "dark"])}
        <label class="check"><input type="checkbox" checked=${notifies.value} onChange=${notify} /> ${t("notify")}</label></div></section>
    ${data.value ? [browserTable(), keyTable(), configTable(), lists()] : html`<${Skeleton} lines=${8} />`}
  </section>`;
});
