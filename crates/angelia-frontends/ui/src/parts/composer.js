// The input field: a message starts the next turn, or steers the running one.

import { call } from "../api.js";
import { component, html, signal } from "../view.js";
import { t } from "../words.js";
import { attempt, say } from "./feedback.js";
import { Icon } from "./icons.js";

/** @type {import("../../vendor/preact.js").ComponentType<{session: string, running: string | null}>} */
export const Composer = component((life) => {
  const text = signal("");
  const sending = signal(false);

  /** @param {"send" | "steer"} how */
  const submit = async (how) => {
    const { session, running } = life.given.peek();
    const input = text.peek();
    if (!input.trim() || sending.peek()) return;
    sending.value = true;
    await attempt(async () => {
      if (how === "steer" && running) {
        const steered = await call("POST", `/api/turns/${running}/steer`, { input });
        say(t(`steer_${steered.status}`));
      } else {
        await call("POST", `/api/sessions/${session}/turns`, { input });
      }
      text.value = "";
    });
    sending.value = false;
  };

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key !== "Enter" || event.isComposing || event.altKey) return;
    const running = life.given.peek().running;
    if (event.shiftKey && !running) return;
    event.preventDefault();
    void submit(event.shiftKey ? "steer" : "send");
  };

  return ({ running }) => html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), void submit("send"))}>
    <label class="unseen" for="message">${t("message")}</label>
    <textarea id="message" rows=${Math.min(8, text.value.split("\n").length + 1)} placeholder=${running ? t("message_running") : t("message_hint")} value=${text.value} onInput=${(/** @type {any} */ event) => (text.value = event.target.value)} onKeyDown=${onKey}></textarea>
    <div class="buttons">
      <button type="submit" class="primary" aria-disabled=${text.value.trim() ? null : "true"}><${Icon} name="send" /> ${t("send")}<kbd aria-hidden="true">⏎</kbd></button>
      ${running && html`<button type="button" aria-disabled=${text.value.trim() ? null : "true"} onClick=${() => submit("steer")}>${t("steer")}<kbd aria-hidden="true">⇧⏎</kbd></button>`}
    </div>
  </form>`;
});
