// Turns that start on their own.

import { call } from "../api.js";
import { fullTime, moment, now, readable, span } from "../format.js";
import { Empty, attempt, say } from "../parts/feedback.js";
import { Status } from "../parts/status.js";
import { isLoaded, profiles, put, schedules } from "../store.js";
import { component, html, signal } from "../view.js";
import { t } from "../words.js";

const FIRST = { spec: "", prompt: "", profile: "", cwd: "", to: "" };

export const SchedulesPage = component(() => {
  const form = signal(FIRST);
  /** The schedule whose removal waits for a second press. */
  const removes = signal("");
  const set = (/** @type {keyof typeof FIRST} */ field) => (/** @type {any} */ event) => (form.value = { ...form.peek(), [field]: event.target.value });
  const add = (/** @type {Event} */ event) => {
    event.preventDefault();
    void attempt(async () => {
      const { spec, prompt, profile, cwd, to } = form.peek();
      put(schedules, await call("POST", "/api/schedules", { spec, prompt, profile: profile || null, cwd: cwd || null, to: to || null }));
      form.value = FIRST;
      say(t("schedule_added"));
    });
  };
  const pause = (/** @type {any} */ one) => attempt(async () => put(schedules, await call("PATCH", `/api/schedules/${one.id}`, { paused: !one.paused })));
  const remove = (/** @type {any} */ one) =>
    attempt(async () => {
      if (removes.peek() !== one.id) return void (removes.value = one.id);
      await call("DELETE", `/api/schedules/${one.id}`);
      put(schedules, { id: one.id, deleted: true });
    });

  /** @param {any} one */
  const row = (one) => html`<li key=${one.id} class="schedule"><code>${readable(one.spec)}</code>
    <div class="schedule-main"><span>${readable(one.prompt)}</span><p class="faint">${one.profile ?? t("default_profile")}${one.to && html` → ${readable(one.to)}`}${one.last && html` · ${t("last")} <${Status} status=${one.last.status} /> ${one.last.turn_id && one.last.session_id ? html`<a href=${`#/s/${one.last.session_id}/${one.last.turn_id}`}>${moment(one.last.at)}</a>` : moment(one.last.at)}`}</p></div>
    <span class="number">${one.paused ? html`<span class="tag">${t("paused")}</span>` : one.next_at ? html`<span title=${fullTime(one.next_at)}>${t("in", span(Date.parse(one.next_at) - now.value))}</span>` : ""}</span>
    <span class="buttons"><button type="button" onClick=${() => pause(one)}>${one.paused ? t("resume") : t("pause")}</button><button type="button" class="quiet" title=${t("remove_sure")} onBlur=${() => (removes.value = "")} onClick=${() => remove(one)}>${removes.value === one.id ? t("press_again", t("remove")) : t("remove")}</button></span></li>`;

  return () => {
    const all = [...schedules.value.values()];
    return html`<section class="page schedules"><div class="page-head"><h1>${t("schedules")}</h1></div>
      ${isLoaded.value && all.length === 0 && html`<${Empty} title=${t("no_schedules")}><p><code>angelia schedule add --every 1h "…"</code></p><//>`}
      <ul class="rows">${all.map(row)}</ul>
      <form class="block send-form" onSubmit=${add}><h2>${t("add_schedule")}</h2>
        <label>${t("when")}<input type="text" required spellcheck="false" placeholder="0 9 * * 1-5 · every 2h · at 2027-01-31 09:00" value=${form.value.spec} onInput=${set("spec")} /></label>
        <label>${t("message")}<textarea rows="2" required value=${form.value.prompt} onInput=${set("prompt")}></textarea></label>
        <div class="fields"><label>${t("profile")}<select value=${form.value.profile} onChange=${set("profile")}><option value="">${t("default_profile")}</option>${profiles.value.map((one) => html`<option key=${one.id} value=${one.id} selected=${form.value.profile === one.id}>${one.id}</option>`)}</select></label>
          <label>${t("folder")}<input type="text" spellcheck="false" value=${form.value.cwd} onInput=${set("cwd")} /></label>
          <label>${t("result_to")}<input type="text" spellcheck="false" value=${form.value.to} onInput=${set("to")} /></label></div>
        <div class="buttons"><button type="submit">${t("add")}</button></div>
      </form>
    </section>`;
  };
});
