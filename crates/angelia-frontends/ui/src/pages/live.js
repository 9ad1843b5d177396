// All unfinished turns: what they are doing, which timeout runs, and their latest words.

import { call } from "../api.js";
import { clock, now, readable, sessionName } from "../format.js";
import { Empty, attempt } from "../parts/feedback.js";
import { Icon } from "../parts/icons.js";
import { Status } from "../parts/status.js";
import { isLoaded, runningTurns, sessions } from "../store.js";
import { component, html } from "../view.js";
import { t } from "../words.js";

/** @param {any} turn */
function limit(turn) {
  if (turn.resumes_at) return html`${t("resumes", clock(Date.parse(turn.resumes_at) - now.value))}`;
  if (!turn.clock) return "";
  const left = Date.parse(turn.clock.fires_at) - now.value;
  return html`${t(`state_${turn.clock.name}`, readable(turn.clock.name))} <span class=${left < 15000 ? "bad-text" : "faint"} title=${turn.clock.setting}>${t("left", clock(left))}</span>`;
}

export const LivePage = component(() => {
  return () => {
    const turns = [...runningTurns.value.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
    return html`<section class="page live">
      <div class="page-head"><h1>${t("live")}</h1>${turns.length > 0 && html`<span class="faint">${t(turns.length === 1 ? "turn_one" : "turn_count", turns.length)}</span>`}</div>
      ${isLoaded.value && turns.length === 0 && html`<${Empty} title=${t("nothing_runs")}><p>${t("nothing_runs_more")}</p><//>`}
      <ul class="rows">
        ${turns.map((turn) => {
          const session = sessions.value.get(turn.session_id);
          return html`<li key=${turn.id} class="live-row">
            <${Status} status=${turn.status} />
            <span class="number">${clock(now.value - Date.parse(turn.created_at))}</span>
            <div class="live-main"><a href=${`#/s/${turn.session_id}/${turn.id}`}>${session ? sessionName(session) : t("untitled")}</a>
              <span class="faint"> ${session?.executor ?? ""} ${session?.profile ?? ""}</span>
              <p class="last-words">${readable(turn.last_words ?? turn.input?.[0]?.text ?? "").slice(-160)}</p></div>
            <span class="live-clock">${limit(turn)}</span>
            <button type="button" class="quiet" onClick=${() => attempt(() => call("POST", `/api/turns/${turn.id}/interrupt`, {}))}><${Icon} name="stop" /> ${t("stop")}</button>
          </li>`;
        })}
      </ul>
    </section>`;
  };
});
