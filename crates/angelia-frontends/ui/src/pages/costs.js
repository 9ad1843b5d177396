// The cost of turns, the use of caches, and the remaining quotas.

import { get, query } from "../api.js";
import { onReset } from "../feed.js";
import { ago, cacheShare, money, moment, now, percent, readable, sessionName, span, tokens } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Empty, Skeleton, attempt } from "../parts/feedback.js";
import { route, setFilter } from "../route.js";
import { needSession, quotas, runningTurns, sessions } from "../store.js";
import { component, computed, effect, html, signal } from "../view.js";
import { language, t } from "../words.js";

const RANGES = { "24h": [1, "hour"], "7d": [7, "day"], "30d": [30, "day"] };
/** How many sessions' names are read for the table. */
const NAMED_SESSIONS = 20;
const GROUPS = ["profile", "model", "executor", "lane", "key", "session"];

/** @typedef {{key: string | null, start?: string, turns: number, cold_starts: number, input_tokens: number, output_tokens: number, cache_read_tokens: number, cache_write_tokens: number, cost_usd: number | null}} UsageRow */

/** Returns every period of the range, including those without turns. @param {Date} from @param {string} bucket @param {UsageRow[]} rows */
function fill(from, bucket, rows) {
  const known = new Map(rows.map((row) => [row.start, row]));
  const at = new Date(from);
  if (bucket === "day") at.setHours(0, 0, 0, 0);
  else at.setMinutes(0, 0, 0);
  const filled = [];
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  while (at.getTime() <= Date.now()) {
    const start = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${bucket === "day" ? "00" : two(at.getHours())}:00`;
    filled.push({ time: at.getTime() / 1000, row: known.get(start) ?? null });
    if (bucket === "day") at.setDate(at.getDate() + 1);
    else at.setTime(at.getTime() + 36e5);
  }
  return filled;
}

export const CostsPage = component((life) => {
  const range = computed(() => /** @type {keyof typeof RANGES} */ (route.value.filters.get("range") ?? "7d"));
  const group = computed(() => route.value.filters.get("by") ?? "profile");
  /** @type {import("../../vendor/signals.js").Signal<{periods: any[], groups: UsageRow[], all: UsageRow | null, cold: any[]} | null>} */
  const data = signal(null);
  let version = 0;

  const read = async () => {
    const mine = ++version;
    const [days, bucket] = RANGES[range.peek()] ?? RANGES["7d"];
    const since = new Date(Date.now() - Number(days) * 864e5);
    if (bucket === "day") since.setHours(0, 0, 0, 0);
    const from = since.toISOString();
    const read = await attempt(() =>
      Promise.all([
        get(`/api/usage${query({ from, bucket: String(bucket) })}`),
        get(`/api/usage${query({ from, by: group.peek() })}`),
        get(`/api/usage${query({ from })}`),
        get(`/api/usage/cold${query({ from, limit: 50 })}`),
      ]),
    );
    if (!read || mine !== version) return;
    const [periods, groups, all, cold] = read;
    if (group.peek() === "session") for (const row of groups.data.slice(0, NAMED_SESSIONS)) if (row.key) void needSession(row.key);
    data.value = { periods: fill(since, String(bucket), periods.data), groups: groups.data, all: all.data[0] ?? null, cold: cold.data };
  };

  life.onMount(() => {
    let timer = 0;
    const stops = [
      effect(() => {
        range.value;
        group.value;
        void read();
      }),
      // The end of a turn changes the sums.
      effect(() => {
        runningTurns.value.size;
        clearTimeout(timer);
        timer = setTimeout(() => data.peek() && void read(), 1500);
      }),
      onReset(() => void read()),
    ];
    return () => (clearTimeout(timer), stops.forEach((stop) => stop()));
  });

  const label = (/** @type {number} */ time) => new Intl.DateTimeFormat(language.value, RANGES[range.value]?.[1] === "hour" ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } : { month: "short", day: "numeric" }).format(new Date(time * 1000));

  const charts = () => {
    if (!data.value) return html`<${Skeleton} lines=${6} />`;
    const { periods, all } = data.value;
    const times = periods.map((one) => one.time);
    const column = (/** @type {keyof UsageRow} */ field) => periods.map((one) => Number(one.row?.[field] ?? 0));
    const share = all ? cacheShare(all) : null;
    const sum = all ? all.input_tokens + all.cache_read_tokens + all.cache_write_tokens + all.output_tokens : 0;
    return html`<div class="charts">
      <${Chart} title=${t("cost")} total=${money(all?.cost_usd ?? 0)} times=${times} label=${label} format=${money} least=${0.01} series=${[{ label: t("cost"), color: "accent", kind: "bars", values: column("cost_usd") }]} />
      <${Chart} title=${t("cache_hits")} total=${percent(share)} times=${times} label=${label} format=${(/** @type {number} */ value) => `${Math.round(value)} %`} max=${100} series=${[{ label: t("cache_hits"), color: "good", kind: "area", values: periods.map((one) => (one.row && cacheShare(one.row) !== null ? /** @type {number} */ (cacheShare(one.row)) * 100 : null)) }]} />
      <${Chart} title=${t("tokens")} total=${tokens(sum)} times=${times} label=${label} format=${tokens} series=${[
        { label: t("cache_read"), color: "good", kind: "area", values: column("cache_read_tokens") },
        { label: t("cache_write"), color: "ask", kind: "area", values: column("cache_write_tokens") },
        { label: t("input"), color: "accent", kind: "area", values: column("input_tokens") },
        { label: t("output"), color: "violet", kind: "line", values: column("output_tokens") },
      ]} />
    </div>`;
  };

  /** @param {UsageRow} row */
  const groupName = (row) => {
    if (group.value !== "session") return readable(row.key ?? "–").replace(/#[0-9a-f]{16}$/, "");
    const session = row.key && sessions.value.get(row.key);
    return row.key ? html`<a href=${`#/s/${row.key}`}>${session ? sessionName(session) : row.key.slice(0, 8)}</a>` : t("deleted_session");
  };

  const groupTable = () => {
    const rows = data.value?.groups ?? [];
    const most = Math.max(...rows.map((row) => row.cost_usd ?? 0), 1e-9);
    return html`<section class="block"><div class="block-head"><h2>${t("by_group")}</h2>
      <label class="chip set"><span class="unseen">${t("group")}</span><select aria-label=${t("group")} onChange=${(/** @type {any} */ event) => setFilter("by", event.target.value)}>${GROUPS.map((one) => html`<option key=${one} value=${one} selected=${one === group.value}>${t(`by_${one}`)}</option>`)}</select></label></div>
      ${rows.length === 0 && data.value && html`<${Empty} title=${t("no_usage")} />`}
      ${rows.length > 0 && html`<div class="table-scroll" tabindex="0"><table class="usage"><thead><tr><th>${t(`by_${group.value}`)}</th><th class="end">${t("cost")}</th><th aria-hidden="true"></th><th class="end">${t("turns")}</th><th class="end">${t("input")}</th><th class="end">${t("output")}</th><th class="end">${t("cache_hits")}</th><th class="end">${t("cold")}</th></tr></thead>
        <tbody>${rows.slice(0, 50).map((row) => html`<tr key=${row.key}><td class="name">${groupName(row)}</td><td class="end">${money(row.cost_usd)}</td><td class="bar-cell" aria-hidden="true"><span class="bar" style=${{ width: `${((row.cost_usd ?? 0) / most) * 100}%` }}></span></td><td class="end">${row.turns}</td><td class="end">${tokens(row.input_tokens + row.cache_read_tokens + row.cache_write_tokens)}</td><td class="end">${tokens(row.output_tokens)}</td><td class="end">${percent(cacheShare(row))}</td><td class="end">${row.cold_starts}</td></tr>`)}</tbody></table></div>`}
    </section>`;
  };

  const quotaList = () => {
    const all = [...quotas.value.values()];
    const parked = [...runningTurns.value.values()].filter((turn) => turn.status === "parked").length;
    return html`<section class="block"><div class="block-head"><h2>${t("quotas")}</h2>${parked > 0 && html`<span class="tag asked">${t("parked_turns", parked)}</span>`}</div>
      ${all.length === 0 && html`<p class="faint">${t("no_quotas")}</p>`}
      ${all.map((one) => html`<div class="quota" key=${one.id}><span>${one.executor} <span class="faint">${readable(one.window.replaceAll("_", " "))}</span></span>
        <meter min="0" max="100" low="60" high="85" optimum="0" value=${one.exhausted ? 100 : (one.used_percent ?? 0)} aria-label=${`${one.executor} ${one.window}`}></meter>
        <span class="number">${one.used_percent === null ? (one.exhausted ? t("used_up") : "–") : `${Math.round(one.used_percent)} %`}</span>
        <span class="faint">${one.resets_at && t("resets", span(Date.parse(one.resets_at) - now.value))}</span></div>`)}
    </section>`;
  };

  const coldList = () => {
    const cold = data.value?.cold ?? [];
    return html`<section class="block"><div class="block-head"><h2>${t("cold_starts")}</h2><span class="faint">${t("cold_more")}</span></div>
      ${cold.length === 0 && data.value && html`<p class="faint">${t("no_cold")}</p>`}
      ${cold.length > 0 && html`<div class="table-scroll" tabindex="0"><table><thead><tr><th>${t("time")}</th><th>${t("session_one")}</th><th>${t("reason")}</th><th class="end">${t("input")}</th><th class="end">${t("cost")}</th></tr></thead>
        <tbody>${cold.map((one) => html`<tr key=${one.id}><td title=${one.at}>${moment(one.at)} <span class="faint">${ago(one.at)}</span></td><td class="name">${one.session_id ? html`<a href=${`#/s/${one.session_id}/${one.id}`}>${readable(one.title || t("untitled"))}</a>` : t("deleted_session")}</td><td><span class=${`tag ${one.reason}`}>${t(`cold_${one.reason}`)}</span>${one.model && html` <span class="faint">${readable(one.model)}</span>`}</td><td class="end">${tokens(one.input_tokens + one.cache_write_tokens)}</td><td class="end">${money(one.cost_usd)}</td></tr>`)}</tbody></table></div>`}
    </section>`;
  };

  return () => html`<section class="page costs">
    <div class="page-head"><h1>${t("costs")}</h1>
      <div class="segments" role="group" aria-label=${t("range")}>${Object.keys(RANGES).map((one) => html`<button key=${one} type="button" aria-pressed=${range.value === one ? "true" : "false"} onClick=${() => setFilter("range", one)}>${t(`range_${one}`)}</button>`)}</div>
    </div>
    ${charts()}
    <div class="two">${groupTable()}${quotaList()}</div>
    ${coldList()}
  </section>`;
});
