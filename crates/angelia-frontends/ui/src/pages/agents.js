// The agents on this machine: the installed programs, their logins, and the running processes.

import { get } from "../api.js";
import { readFollowed } from "../feed.js";
import { bytes, readable, sessionName, span } from "../format.js";
import { Empty, Skeleton, attempt } from "../parts/feedback.js";
import { Words } from "../parts/markdown.js";
import { agents, byId, maxAgents, profiles, sessions } from "../store.js";
import { component, html, signal } from "../view.js";
import { t } from "../words.js";

const REFRESH_MS = 10000;

export const AgentsPage = component((life) => {
  /** @type {import("../../vendor/signals.js").Signal<any[] | null>} */
  const executors = signal(null);
  life.onMount(() => {
    void attempt(async () => (executors.value = (await get("/api/executors")).data));
    // Memory use changes without an event.
    const readAgents = async () => (agents.value = byId((await get("/api/agents")).data));
    const timer = setInterval(() => document.visibilityState === "visible" && void readFollowed(readAgents).catch(() => {}), REFRESH_MS);
    return () => clearInterval(timer);
  });

  /** A program that is not ready is a problem only if a profile uses it. @param {any} one */
  const executor = (one) => {
    const wanted = profiles.value.some((profile) => profile.executor === one.id);
    const [shape, look] = one.ready ? ["✓", "good"] : wanted ? ["✕", "bad"] : ["○", "calm"];
    const state = one.ready ? t(`login_${one.login}`) : t(wanted ? "not_ready" : "not_used");
    return html`<li key=${one.id} class="executor">
      <span class=${`status ${look}`}><span class="shape" aria-hidden="true">${shape}</span> <strong>${one.id}</strong></span>
      <span class="faint">${readable(one.version ?? "")}</span>
      <span><span class=${wanted && !one.ready ? "tag failed" : "tag"}>${state}</span>${one.lane && html` <span class="faint">${readable(one.lane)}</span>`}</span>
      <p class="faint">${one.problem && html`<${Words} text=${one.problem.message} />${one.problem.hint && html`; <${Words} text=${one.problem.hint} />`}`}</p>
    </li>`;
  };

  /** @param {any} one */
  const process = (one) => {
    const session = one.session_id && sessions.value.get(one.session_id);
    return html`<tr key=${one.id}><td><span class=${`status ${one.state === "busy" ? "busy" : "calm"}`}><span class="shape" aria-hidden="true">${one.state === "busy" ? "●" : one.state === "idle" ? "◌" : "○"}</span> ${t(`agent_${one.state}`)}</span></td>
      <td class="name">${one.session_id ? html`<a href=${`#/s/${one.session_id}`}>${session ? sessionName(session) : readable(one.title || one.session_id.slice(0, 8))}</a>` : html`<span class="faint">${t("no_session_yet")}</span>`}</td>
      <td>${one.executor ?? readable(one.program ?? "")} <span class="faint">${readable(one.model ?? "")}</span></td>
      <td class="end">${one.pid ?? "–"}</td><td class="end">${one.processes ?? "–"}</td><td class="end">${one.rss_bytes === null ? "–" : bytes(one.rss_bytes)}</td><td class="end">${one.idle_seconds === null ? "" : span(one.idle_seconds * 1000)}</td></tr>`;
  };

  return () => {
    const all = [...agents.value.values()];
    const live = all.filter((one) => one.session_id).length;
    const memory = all.reduce((sum, one) => sum + (one.rss_bytes ?? 0), 0);
    return html`<section class="page agents">
      <div class="page-head"><h1>${t("agents")}</h1></div>
      <section class="block"><div class="block-head"><h2>${t("programs")}</h2></div>
        ${executors.value === null ? html`<${Skeleton} lines=${4} />` : html`<ul class="rows">${executors.value.toSorted((one, other) => Number(other.ready) - Number(one.ready)).map(executor)}</ul>`}
      </section>
      <section class="block"><div class="block-head"><h2>${t("processes")}</h2>
          <span class="gauge"><meter min="0" max=${Math.max(maxAgents.value, 1)} value=${live} aria-label=${t("live_agents")}></meter> <span class="faint">${t("of_agents", live, maxAgents.value)} · ${bytes(memory)}</span></span></div>
        ${all.length === 0
          ? html`<${Empty} title=${t("no_agents")} />`
          : html`<div class="table-scroll" tabindex="0"><table><thead><tr><th>${t("state")}</th><th>${t("session_one")}</th><th>${t("agent")}</th><th class="end">PID</th><th class="end">${t("process_count")}</th><th class="end">${t("memory")}</th><th class="end">${t("idle")}</th></tr></thead><tbody>${all.map(process)}</tbody></table></div>`}
      </section>
    </section>`;
  };
});
