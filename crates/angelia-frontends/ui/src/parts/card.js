// An approval card: what exactly would happen, who asks, and the possible decisions. No button has the focus
// when a card appears, and none works for a moment after the card has appeared or moved, so that nobody
// approves what they have not seen.

import { call } from "../api.js";
import { diffFiles } from "../diff.js";
import { ago, now, readable, seenFrom, sessionName, shortPath, span, visible } from "../format.js";
import { approvals, needSession, sessions } from "../store.js";
import { component, effect, html, signal } from "../view.js";
import { t } from "../words.js";
import { Diff } from "./diff.js";
import { attempt, complain, say } from "./feedback.js";

const DEAD_TIME_MS = 500;

/** @typedef {{approval: any, place?: number, isInSession?: boolean}} CardProps */

/** Returns the title without the tool's name and the folder, which are shown next to it. @param {any} approval */
function cardTitle({ tool, title, session }) {
  const rest = title.startsWith(`${tool} `) ? title.slice(tool.length + 1) : title;
  return readable(seenFrom(rest, session?.cwd));
}

/** @type {import("../../vendor/preact.js").ComponentType<CardProps>} */
export const ApprovalCard = component((life) => {
  const ready = signal(false);
  const sending = signal(false);
  const note = signal("");
  const rule = signal("");
  /** The verdict that waits for a second press. @type {import("../../vendor/signals.js").Signal<string>} */
  const confirming = signal("");
  /** @type {import("../../vendor/signals.js").Signal<Record<string, string>>} */
  const answers = signal({});
  let timer = 0;
  life.onMount(() => {
    void needSession(life.given.peek().approval.session_id);
    // Reading the place makes this run again when the card moves.
    const stop = effect(() => {
      life.given.value.place;
      ready.value = false;
      clearTimeout(timer);
      timer = setTimeout(() => (ready.value = true), DEAD_TIME_MS);
    });
    return () => (stop(), clearTimeout(timer));
  });

  /** @param {string} verdict */
  const decide = async (verdict) => {
    if (!ready.peek() || sending.peek()) return;
    if ((verdict === "session" || verdict === "always") && confirming.peek() !== verdict) {
      confirming.value = verdict;
      return;
    }
    const { approval } = life.given.peek();
    sending.value = true;
    try {
      const body = { verdict, note: note.peek() || null, answers: answers.peek(), ...(rule.peek() && { rule: rule.peek() }) };
      await call("POST", `/api/approvals/${approval.id}`, body);
      say(t(`said_${verdict}`));
    } catch (error) {
      complain(error);
      if (/** @type {any} */ (error).status === 409) await attempt(refresh);
    }
    sending.value = false;
  };

  /** Shows who decided first. */
  const refresh = async () => {
    const { get } = await import("../api.js");
    approvals.value = (await get("/api/approvals?all=1&limit=50")).data;
  };

  /** @param {string} question @param {string} answer @param {boolean} many */
  const choose = (question, answer, many) => {
    const known = answers.peek()[question] ?? "";
    const chosen = known ? known.split(", ") : [];
    const next = many ? (chosen.includes(answer) ? chosen.filter((one) => one !== answer) : [...chosen, answer]).join(", ") : answer;
    answers.value = { ...answers.peek(), [question]: next };
  };

  /** @param {any} approval */
  const questions = (approval) =>
    approval.questions?.map(
      (/** @type {any} */ question, /** @type {number} */ index) => html`<fieldset key=${index} class="question">
        <legend>${question.header && html`<span class="tag">${readable(question.header)}</span> `}${readable(question.text)}</legend>
        ${(question.options ?? []).map(
          (/** @type {any} */ option) => html`<label key=${option.label}>
            <input type=${question.multiple ? "checkbox" : "radio"} name=${`${approval.id}-${index}`} checked=${(answers.value[question.text] ?? "").split(", ").includes(option.label)} onChange=${() => choose(question.text, option.label, question.multiple)} />
            <span>${readable(option.label)}${option.description && html` <span class="faint">${readable(option.description)}</span>`}</span>
          </label>`,
        )}
        <input class="wide" type="text" aria-label=${t("own_answer")} placeholder=${t("own_answer")} onInput=${(/** @type {any} */ event) => (answers.value = { ...answers.peek(), [question.text]: event.target.value })} />
      </fieldset>`,
    );

  /** @param {any} approval */
  const decisions = (approval) => {
    const isQuestion = approval.kind === "question";
    const has = (/** @type {string} */ verdict) => approval.choices.includes(verdict);
    const off = !ready.value || sending.value;
    const button = (/** @type {string} */ verdict, /** @type {string} */ label, kind = "") =>
      has(verdict) && html`<button key=${verdict} type="button" class=${kind} aria-disabled=${off ? "true" : null} data-verdict=${verdict} onClick=${() => decide(verdict)}>${confirming.value === verdict ? t("press_again", label) : label}</button>`;
    return html`<div class="decide">
      <div class="buttons" onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && (confirming.value = "")}>
        ${button("once", isQuestion ? t("answer") : t("once"), "primary")}
        ${!isQuestion && button("session", t("session"))}
        ${!isQuestion && button("always", t("always"))}
        ${button("deny", t("deny"))}
        ${button("stop", t("stop_turn"), "danger")}
      </div>
      ${!isQuestion && (approval.rules ?? []).length > 1 &&
      html`<label class="rule">${t("covers")}
        <select onChange=${(/** @type {any} */ event) => (rule.value = event.target.value)}>${approval.rules.map((/** @type {string} */ one) => html`<option key=${one} value=${one}>${visible(one)}</option>`)}</select>
      </label>`}
      <input class="note" type="text" aria-label=${t("note")} placeholder=${t("note")} value=${note.value} onInput=${(/** @type {any} */ event) => (note.value = event.target.value)} />
    </div>`;
  };

  return ({ approval, isInSession = false }) => {
    const { session } = approval;
    const expires = Date.parse(approval.expires_at) - now.value;
    return html`<article class=${`card ${approval.decided ? "decided" : "open"}`} data-approval=${approval.id} aria-label=${`${approval.tool}: ${readable(approval.title)}`}>
      <header>
        <span class="card-tool">${approval.kind === "question" ? t("question") : readable(approval.tool)}</span>
        <h2>${cardTitle(approval)}</h2>
        <span class="faint times">${ago(approval.asked_at)}${!approval.decided && expires < 864e5 * 7 && html` · ${t("expires", span(expires))}`}</span>
      </header>
      ${approval.detail && approval.detail !== approval.title && !approval.questions && html`<pre class="exact" tabindex="0" aria-label=${t("exact")}>${visible(approval.detail)}</pre>`}
      ${approval.diff &&
      diffFiles(approval.diff).map(
        (file) => html`<div class="file" key=${file.path}><div class="file-name"><code>${visible(file.path)}</code></div><${Diff} lines=${file.lines} label=${t("changes_of", visible(file.path))} /></div>`,
      )}
      ${!approval.decided && questions(approval)}
      ${!isInSession && html`<p class="whose">
        <a href=${`#/s/${approval.session_id}/${approval.turn_id}`}>${session ? sessionName(sessions.value.get(approval.session_id) ?? session) : t("deleted_session")}</a>
        ${session && html`<span class="faint"> · ${session.profile} · <span title=${session.cwd}>${shortPath(session.cwd)}</span></span>`}
      </p>`}
      ${approval.decided
        ? html`<p class="verdict"><strong>${t(`verdict_${approval.decided.verdict}`)}</strong> <span class="faint">${t("by", readable(approval.decided.by))} · ${ago(approval.decided.at)}</span></p>`
        : decisions(approval)}
    </article>`;
  };
});
