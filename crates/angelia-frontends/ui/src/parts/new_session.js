// Starts a session: a profile, a folder, and the first message.

import { call } from "../api.js";
import { go } from "../route.js";
import { lastFolder, lastProfile, startsSession as isOpen } from "../settings.js";
import { profiles } from "../store.js";
import { component, effect, html, signal } from "../view.js";
import { t } from "../words.js";
import { attempt } from "./feedback.js";

export const NewSession = component((life) => {
  /** @type {{current: HTMLDialogElement | null}} */
  const dialog = { current: null };
  const message = signal("");
  const sending = signal(false);
  life.onMount(() =>
    effect(() => {
      const element = dialog.current;
      if (!element) return;
      if (isOpen.value && !element.open) element.showModal();
      else if (!isOpen.value && element.open) element.close();
    }),
  );

  const start = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (sending.peek()) return;
    sending.value = true;
    await attempt(async () => {
      const cwd = lastFolder.peek().trim();
      const session = await call("POST", "/api/sessions", { profile: lastProfile.peek() || null, cwd: cwd || null });
      if (message.peek().trim()) await call("POST", `/api/sessions/${session.id}/turns`, { input: message.peek() });
      message.value = "";
      isOpen.value = false;
      go(`/s/${session.id}`);
    });
    sending.value = false;
  };

  return () => html`<dialog class="dialog" aria-labelledby="new-session" ref=${(/** @type {any} */ element) => (dialog.current = element)} onClose=${() => (isOpen.value = false)}>
    <form onSubmit=${start}>
      <h2 id="new-session">${t("new_session")}</h2>
      <label>${t("profile")}
        <select value=${lastProfile.value} onChange=${(/** @type {any} */ event) => (lastProfile.value = event.target.value)}>
          <option value="" selected=${lastProfile.value === ""}>${t("default_profile")}</option>
          ${profiles.value.map((one) => html`<option key=${one.id} value=${one.id} selected=${lastProfile.value === one.id}>${one.id} – ${one.executor}${one.model ? ` · ${one.model}` : ""}</option>`)}
        </select>
      </label>
      <label>${t("folder")}
        <input type="text" spellcheck="false" autocomplete="off" placeholder=${t("folder_hint")} value=${lastFolder.value} onInput=${(/** @type {any} */ event) => (lastFolder.value = event.target.value)} />
      </label>
      <label>${t("message")}
        <textarea rows="5" value=${message.value} onInput=${(/** @type {any} */ event) => (message.value = event.target.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && start(event)}></textarea>
      </label>
      <div class="buttons end">
        <button type="button" onClick=${() => (isOpen.value = false)}>${t("cancel")}</button>
        <button type="submit" class="primary" disabled=${sending.value}>${t("start")}</button>
      </div>
    </form>
  </dialog>`;
});
