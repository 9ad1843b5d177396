// One session: its live conversation, and its changes next to it.

import { call, get } from "../api.js";
import { onChange, onReset, readFollowed } from "../feed.js";
import { money, readable, sessionName, shortPath } from "../format.js";
import { Changes } from "../parts/changes.js";
import { Composer } from "../parts/composer.js";
import { ApprovalCard } from "../parts/card.js";
import { Events } from "../parts/events.js";
import { Empty, Skeleton, attempt, say } from "../parts/feedback.js";
import { Icon } from "../parts/icons.js";
import { Status } from "../parts/status.js";
import { Turn } from "../parts/transcript.js";
import { TurnStream } from "../parts/turn_stream.js";
import { go } from "../route.js";
import { showsChanges } from "../settings.js";
import { FINAL, needSession, sessions, waiting } from "../store.js";
import { component, computed, effect, html, signal } from "../view.js";
import { t } from "../words.js";
import { SessionColumn } from "./sessions.js";

const PAGE = 30;
/** How many pages are searched for the turn in the address. */
const MAX_PAGES = 40;
/** How many turns are opened initially. */
const OPEN_TURNS = 3;
/** Within this distance from the end, in pixels, the view keeps following. */
const NEAR_END = 120;

/** @typedef {{id: string, turn: string | null}} SessionProps */

/** @type {import("../../vendor/preact.js").ComponentType<SessionProps>} */
export const SessionPage = component((life) => {
  const { id, turn: wanted } = life.given.peek();
  /** Oldest first. @type {import("../../vendor/signals.js").Signal<any[] | null>} */
  const turns = signal(null);
  /** @type {import("../../vendor/signals.js").Signal<string | null>} */
  const older = signal(null);
  const missing = signal(false);
  const panel = signal("changes");
  const announced = signal("");
  const renames = signal(false);
  const deletes = signal(false);
  /** @type {import("../../vendor/signals.js").Signal<Map<string, TurnStream>>} */
  const streams = signal(new Map());
  /** @type {{current: HTMLElement | null}} */
  const log = { current: null };
  let follows = true;

  const session = computed(() => sessions.value.get(id));
  const newest = computed(() => turns.value?.at(-1) ?? null);
  const running = computed(() => turns.value?.find((one) => one.status !== "queued" && !FINAL.has(one.status)) ?? null);
  const asked = computed(() => waiting.value.filter((one) => one.session_id === id));
  const openStreams = computed(() => (turns.value ?? []).map((one) => streams.value.get(one.id)).filter((one) => one !== undefined));

  /** Reads the steps of a turn. A queued one has none yet. @param {any} turn */
  const openTurn = (turn) => {
    if (turn.status === "queued" || streams.peek().has(turn.id)) return;
    streams.value = new Map(streams.peek()).set(turn.id, new TurnStream(turn.id));
  };

  const readPage = async (/** @type {string | null} */ cursor) => {
    const list = await get(`/api/turns?session=${id}&limit=${PAGE}${cursor ? `&cursor=${cursor}` : ""}`).catch((error) => {
      missing.value = error.status === 404 || error.status === 400;
      return null;
    });
    if (!list) return;
    const read = list.data.toReversed();
    turns.value = cursor ? [...read, ...(turns.peek() ?? [])] : read;
    older.value = list.next;
    if (!cursor) for (const one of read.slice(-OPEN_TURNS)) openTurn(one);
    const linked = read.find((/** @type {any} */ one) => one.id === wanted);
    if (linked) openTurn(linked);
  };
  const read = (/** @type {string | null} */ cursor) => readFollowed(() => readPage(cursor));

  const has = (/** @type {string} */ turn) => turns.peek()?.some((one) => one.id === turn) ?? false;

  const scrollDown = () => {
    const element = log.current;
    if (element && follows) element.scrollTop = element.scrollHeight;
  };

  life.onMount(() => {
    void read(null).then(async () => {
      if (!wanted) return;
      for (let page = 0; page < MAX_PAGES && older.peek() && !has(wanted); page += 1) await read(older.peek());
      if (!has(wanted)) return;
      follows = false;
      requestAnimationFrame(() => document.getElementById(`turn-${wanted}`)?.scrollIntoView());
    });
    void needSession(id).then(() => !session.peek() && (missing.value = true));
    const stops = [
      onReset(() => void read(null)),
      onChange("turn.changed", (turn) => {
        const known = turns.peek();
        if (turn.session_id !== id || !known) return;
        const at = known.findIndex((one) => one.id === turn.id);
        turns.value = at < 0 ? [...known, turn] : known.with(at, turn);
        if (at < 0) follows = true;
        if (at < 0 || known[at]?.status === "queued") openTurn(turn);
      }),
      // Announce complete blocks to screen readers, not every piece of text.
      effect(() => {
        /** @type {TurnStream | undefined} */
        const stream = newest.value ? streams.value.get(newest.value.id) : undefined;
        const last = stream?.view.value.parts.findLast((part) => part.kind === "text" && part.whole);
        if (last && "text" in last && !stream?.view.peek().finished) announced.value = last.text.slice(0, 500);
      }),
      effect(() => {
        for (const stream of openStreams.value) stream?.view.value;
        turns.value;
        asked.value;
        requestAnimationFrame(() => requestAnimationFrame(scrollDown));
      }),
    ];
    return () => {
      for (const stop of stops) stop();
      for (const stream of streams.peek().values()) stream.leave();
    };
  });

  const rename = (/** @type {Event} */ event) => {
    event.preventDefault();
    const title = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("title") ?? "").trim();
    renames.value = false;
    void attempt(() => call("PATCH", `/api/sessions/${id}`, { title: title || null }));
  };
  const fork = () =>
    attempt(async () => {
      const forked = await call("POST", `/api/sessions/${id}/fork`);
      say(t("forked"));
      go(`/s/${forked.id}`);
    });
  const remove = () =>
    attempt(async () => {
      if (!deletes.peek()) return void (deletes.value = true);
      await call("DELETE", `/api/sessions/${id}`);
      say(t("deleted"));
      go("/sessions");
    });
  const stop = () => attempt(() => call("POST", `/api/turns/${running.peek()?.id}/interrupt`, {}));

  const head = () => {
    const one = session.value;
    if (!one) return html`<header class="session-head"><h1>${t("session_one")}</h1></header>`;
    return html`<header class="session-head">
      <a class="back" href="#/sessions" aria-label=${t("sessions")}><${Icon} name="back" /></a>
      <div class="session-title">${renames.value
        ? html`<form class="rename" onSubmit=${rename} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && (renames.value = false)}><input type="text" name="title" aria-label=${t("title")} value=${one.title ?? ""} ref=${(/** @type {any} */ element) => element?.focus()} /><button type="submit">${t("rename")}</button></form>`
        : html`<h1>${sessionName(one)}</h1>`}
        <p class="faint">${one.executor}${one.model && html` · ${readable(one.model)}`} · ${one.profile} · <span title=${one.cwd}>${shortPath(one.cwd)}</span> · ${one.permissions} · ${t(one.turns === 1 ? "turn_one" : "turn_count", one.turns)} · ${money(one.cost_usd)}</p></div>
      <div class="buttons">
        ${running.value && html`<${Status} status=${running.value.status} /><button type="button" class="danger" onClick=${stop}><${Icon} name="stop" /> ${t("stop")}</button>`}
        <button type="button" class="quiet" aria-label=${t("rename")} title=${t("rename")} aria-pressed=${renames.value ? "true" : "false"} onClick=${() => (renames.value = !renames.peek())}><${Icon} name="edit" /></button>
        <button type="button" class="quiet" aria-label=${t("fork")} title=${t("fork")} onClick=${fork}><${Icon} name="fork" /></button>
        <button type="button" class=${deletes.value ? "danger" : "quiet"} aria-label=${deletes.value ? t("press_again", t("delete")) : t("delete")} title=${t("delete_sure")} onClick=${remove} onBlur=${() => (deletes.value = false)}><${Icon} name="trash" />${deletes.value && t("press_again", t("delete"))}</button>
        <button type="button" class="quiet" aria-pressed=${showsChanges.value ? "true" : "false"} onClick=${() => (showsChanges.value = !showsChanges.peek())}>${t("changes")}</button>
      </div>
    </header>`;
  };

  const side = () => html`<aside class="side" aria-label=${t("beside")}>
    <div class="tabs" role="tablist">${["changes", "events"].map((name) => html`<button key=${name} type="button" role="tab" aria-selected=${panel.value === name ? "true" : "false"} onClick=${() => (panel.value = name)}>${t(name)}</button>`)}</div>
    ${panel.value === "changes" ? html`<${Changes} streams=${openStreams.value} />` : html`<${Events} stream=${newest.value ? (streams.value.get(newest.value.id) ?? null) : null} />`}
  </aside>`;

  return () => html`<section class="session-page">
    <${SessionColumn} selected=${id} />
    <div class="work">
      ${head()}
      <div class=${showsChanges.value ? "session-body with-side" : "session-body"}>
        <div class="conversation">
          <div class="log" role="log" aria-live="off" aria-label=${t("transcript")} tabindex="0" ref=${(/** @type {any} */ element) => (log.current = element)} onScroll=${(/** @type {any} */ event) => (follows = event.target.scrollHeight - event.target.scrollTop - event.target.clientHeight < NEAR_END)}>
            ${older.value && html`<button type="button" class="quiet" onClick=${() => ((follows = false), void read(older.peek()))}>${t("earlier")}</button>`}
            ${turns.value === null && !missing.value && html`<${Skeleton} lines=${5} />`}
            ${missing.value && html`<${Empty} title=${t("no_session")} />`}
            ${turns.value?.length === 0 && html`<${Empty} title=${t("no_turns")} />`}
            ${(turns.value ?? []).map((one) => html`<${Turn} key=${one.id} turn=${one} cwd=${session.value?.cwd ?? ""} stream=${streams.value.get(one.id) ?? null} open=${() => openTurn(one)} />`)}
            ${asked.value.map((one, place) => html`<${ApprovalCard} key=${one.id} approval=${one} place=${place} isInSession=${true} />`)}
          </div>
          <div class="unseen" aria-live="polite">${announced.value}</div>
          <${Composer} session=${id} running=${running.value?.id ?? null} />
        </div>
        ${showsChanges.value && side()}
      </div>
    </div>
  </section>`;
});
