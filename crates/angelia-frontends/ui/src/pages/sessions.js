// All sessions. Ten thousand rows cost no more than ten. Filters and the search are in the address.

import { get, query } from "../api.js";
import { onChange, onReset, readFollowed } from "../feed.js";
import { fullTime, moment, money, readable, sessionName, shortPath } from "../format.js";
import { Empty, Skeleton, attempt } from "../parts/feedback.js";
import { Icon } from "../parts/icons.js";
import { Grid } from "../parts/list.js";
import { Status } from "../parts/status.js";
import { route, setFilter } from "../route.js";
import { startsSession } from "../settings.js";
import { needSession, profiles, rememberSessions, sessions } from "../store.js";
import { component, computed, effect, html, signal } from "../view.js";
import { t } from "../words.js";

const PAGE = 200;
const STATUSES = ["running", "awaiting_approval", "parked", "completed", "partial", "interrupted", "failed"];
const ORIGINS = ["terminal", "http", "key", "bus", "editor", "bridge", "agent", "schedule", "adopted"];
const SINCE = { day: 1, week: 7, month: 30 };
const NAMES = ["q", "status", "profile", "executor", "origin", "since"];

/** @param {URLSearchParams} filters */
function filterQuery(filters) {
  /** @type {Record<string, string | null>} */
  const values = Object.fromEntries(NAMES.map((name) => [name, filters.get(name)]));
  const days = SINCE[/** @type {keyof typeof SINCE} */ (values.since ?? "")];
  values.since = days ? new Date(Date.now() - days * 864e5).toISOString() : null;
  return values;
}

/** Maintains a list of sessions, page by page. @param {import("../view.js").Life<any>} life @param {import("../../vendor/signals.js").ReadonlySignal<string>} key */
function useSessions(life, key) {
  /** @type {import("../../vendor/signals.js").Signal<string[] | null>} */
  const ids = signal(null);
  /** @type {string | null} */
  let next = null;
  let reading = false;
  let version = 0;
  const isFiltered = () => NAMES.some((name) => new URLSearchParams(key.peek()).get(name));
  const readPage = async (/** @type {boolean} */ more) => {
    const mine = more ? version : ++version;
    reading = true;
    const values = { ...filterQuery(new URLSearchParams(key.peek())), sort: "updated", limit: PAGE, cursor: more ? next : null };
    const list = await attempt(() => get(`/api/sessions${query(values)}`));
    reading = false;
    if (!list || mine !== version) return;
    rememberSessions(list.data);
    next = list.next;
    const read = list.data.map((/** @type {any} */ one) => one.id);
    ids.value = more ? [...new Set([...(ids.peek() ?? []), ...read])] : read;
  };
  const read = async (/** @type {boolean} */ more) => {
    if (more && (reading || !next)) return;
    await readFollowed(() => readPage(more));
  };
  life.onMount(() => {
    let timer = 0;
    const stops = [
      effect(() => {
        key.value;
        clearTimeout(timer);
        timer = setTimeout(() => void read(false), ids.peek() === null ? 0 : 120);
      }),
      onReset(() => void read(false)),
      // A used session moves to the top. With filters, only if the daemon has listed it.
      onChange("session.changed", (session) => {
        const known = ids.peek();
        if (!known) return;
        const rest = known.filter((id) => id !== session.id);
        if (session.deleted) ids.value = rest;
        else if (!isFiltered()) ids.value = [session.id, ...rest];
        else if (known.includes(session.id)) ids.value = [session.id, ...rest];
      }),
    ];
    return () => (clearTimeout(timer), stops.forEach((stop) => stop()));
  });
  const rows = computed(() => (ids.value ?? []).map((id) => sessions.value.get(id)).filter(Boolean));
  return { rows, isRead: computed(() => ids.value !== null), more: () => void read(true) };
}

/** @param {any} session */
function cells(session) {
  return html`<span role="gridcell" class="c-status"><${Status} status=${session.status} /></span>
    <span role="gridcell" class="c-name"><a href=${`#/s/${session.id}`} tabindex="-1">${sessionName(session)}</a></span>
    <span role="gridcell" class="c-agent">${session.executor}<span class="faint"> ${session.profile}</span></span>
    <span role="gridcell" class="c-path faint" title=${session.cwd}>${shortPath(session.cwd)}</span>
    <span role="gridcell" class="c-turns number">${session.turns}</span>
    <span role="gridcell" class="c-cost number">${money(session.cost_usd)}</span>
    <span role="gridcell" class="c-time number"><time datetime=${session.updated_at} title=${fullTime(session.updated_at)}>${moment(session.updated_at)}</time></span>`;
}

/** @param {any} session */
function briefCells(session) {
  return html`<span role="gridcell" class="c-status"><${Status} status=${session.status} brief=${true} /></span>
    <span role="gridcell" class="c-name"><a href=${`#/s/${session.id}`} tabindex="-1">${sessionName(session)}</a><span class="faint under">${session.executor} · ${money(session.cost_usd)}</span></span>
    <span role="gridcell" class="c-time number faint">${moment(session.updated_at)}</span>`;
}

/** The list next to an open session. @type {import("../../vendor/preact.js").ComponentType<{selected: string}>} */
export const SessionColumn = component((life) => {
  const { rows, more } = useSessions(life, signal(""));
  return ({ selected }) => html`<aside class="column" aria-label=${t("sessions")}>
    <div class="column-head"><a href="#/sessions">${t("sessions")}</a><button type="button" class="quiet" aria-label=${t("new_session")} onClick=${() => (startsSession.value = true)}><${Icon} name="plus" /></button></div>
    <${Grid} label=${t("sessions")} kind="brief" rows=${rows.value} rowHeight=${48} draw=${briefCells} href=${hrefOf} selected=${selected} onEnd=${more} />
  </aside>`;
});

/** @param {any} row */
const hrefOf = (row) => `#/s/${row.id}`;

/** The messages that contain the search words. @param {{found: any[]}} props */
function Said({ found }) {
  if (!found.length) return null;
  return html`<section class="said" aria-label=${t("said")}><h2>${t("said")}</h2>
    <ul>${found.map((one) => html`<li key=${one.id}><a href=${`#/s/${one.session_id}/${one.id}`}>${sessionName(sessions.value.get(one.session_id) ?? { id: one.session_id, title: one.title })}</a> <span class="faint">${moment(one.time)}</span><p>${marked(one.snippet, one.marks)}</p></li>`)}</ul>
  </section>`;
}

/** @param {string} snippet @param {[number, number][]} marks in bytes of UTF-8 */
function marked(snippet, marks) {
  const all = new TextEncoder().encode(snippet);
  const words = (/** @type {number} */ from, /** @type {number} */ to) => readable(new TextDecoder().decode(all.slice(from, to)));
  const pieces = [];
  let at = 0;
  for (const [from, to] of marks) {
    pieces.push(words(at, from), html`<mark>${words(from, to)}</mark>`);
    at = to;
  }
  return [...pieces, words(at, all.length)];
}

export const SessionsPage = component((life) => {
  const key = computed(() => route.value.filters.toString());
  const { rows, isRead, more } = useSessions(life, key);
  const narrow = matchMedia("(max-width: 760px)");
  const rowHeight = signal(narrow.matches ? 56 : 36);
  /** @type {import("../../vendor/signals.js").Signal<any[]>} */
  const said = signal([]);
  const search = async (/** @type {string} */ words) => {
    const found = await get(`/api/search${query({ q: words, limit: 8 })}`).catch(() => ({ data: [] }));
    for (const one of found.data) void needSession(one.session_id);
    if (route.peek().filters.get("q") === words) said.value = found.data;
  };
  life.onMount(() => {
    const resize = () => (rowHeight.value = narrow.matches ? 56 : 36);
    narrow.addEventListener("change", resize);
    let timer = 0;
    const stop = effect(() => {
      const words = route.value.filters.get("q") ?? "";
      clearTimeout(timer);
      if (words.trim().length < 2) said.value = [];
      else timer = setTimeout(() => void search(words), 200);
    });
    return () => (stop(), clearTimeout(timer), narrow.removeEventListener("change", resize));
  });

  /** @param {string} name @param {string} label @param {[string, string][]} options */
  const chip = (name, label, options) => {
    const value = route.value.filters.get(name) ?? "";
    return html`<label class=${value ? "chip set" : "chip"}><span class="unseen">${label}</span>
      <select aria-label=${label} value=${value} onChange=${(/** @type {any} */ event) => setFilter(name, event.target.value)}>
        <option value="" selected=${value === ""}>${label}</option>
        ${options.map(([word, text]) => html`<option key=${word} value=${word} selected=${value === word}>${text}</option>`)}
      </select></label>`;
  };
  const names = (/** @type {string} */ field) => /** @type {[string, string][]} */ ([...new Set(profiles.value.map((one) => one[field]))].filter((one) => one !== "auto").map((one) => [one, one]));

  return () => {
    const filtered = NAMES.some((name) => route.value.filters.get(name));
    return html`<section class="page sessions">
      <div class="page-head"><h1>${t("sessions")}</h1>
        <button type="button" class="primary" onClick=${() => (startsSession.value = true)}><${Icon} name="plus" /> ${t("new_session")}</button>
      </div>
      ${(filtered || rows.value.length > 0) && html`<div class="chips" role="group" aria-label=${t("filters")}>
        ${chip("status", t("status"), STATUSES.map((one) => [one, t(`status_${one}`)]))}
        ${chip("profile", t("profile"), names("id"))}
        ${chip("executor", t("executor"), names("executor"))}
        ${chip("origin", t("origin"), ORIGINS.map((one) => [one, t(`origin_${one}`)]))}
        ${chip("since", t("since"), Object.keys(SINCE).map((one) => [one, t(`since_${one}`)]))}
        ${filtered && html`<a class="clear" href="#/sessions">${t("clear")}</a>`}
      </div>`}
      ${!isRead.value && html`<${Skeleton} lines=${10} />`}
      ${isRead.value && rows.value.length > 0 && html`<${Grid} label=${t("sessions")} kind="wide" rows=${rows.value} rowHeight=${rowHeight.value} draw=${cells} href=${hrefOf} onEnd=${more}
        heads=${[t("status"), t("name"), t("agent"), t("folder"), t("turns"), t("cost"), t("used")]} />`}
      ${isRead.value && rows.value.length === 0 && html`<${Empty} title=${filtered ? t("no_match") : t("no_sessions")}>${!filtered && html`<p>${t("no_sessions_more")} <code>angelia run "hello"</code></p>`}<//>`}
      <${Said} found=${said.value} />
    </section>`;
  };
});
