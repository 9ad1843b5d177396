// The only page without a login: explains how to sign in.

import { signIn } from "../api.js";
import { component, html, signal } from "../view.js";
import { t } from "../words.js";

/** Returns the code in an address, or in pasted text. @param {string} text */
export function codeOf(text) {
  return /(?:#|&|^)code=([0-9a-f]+)/.exec(text)?.[1] ?? /^[0-9a-f]{16,}$/.exec(text.trim())?.[0] ?? "";
}

/** @type {import("../../vendor/preact.js").ComponentType<{failed: string}>} */
export const LoginPage = component(() => {
  const text = signal("");
  const problem = signal("");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const code = codeOf(text.peek());
    try {
      if (!code) throw new Error(t("no_code"));
      await signIn(code);
    } catch (error) {
      const known = /** @type {any} */ (error);
      problem.value = known.kind === "unreachable" ? t("unreachable") : `${known.message}${known.hint ? `. ${known.hint}` : ""}`;
    }
  };
  const isPlain = !["localhost", "127.0.0.1", "[::1]"].includes(location.hostname) && location.protocol === "http:";
  return ({ failed }) => html`<main class="login" id="main">
    <img src="/ui/icon.svg" alt="" width="48" height="48" />
    <h1>Angelia</h1>
    <p>${t("login_how")}</p>
    <pre class="command">angelia dashboard</pre>
    ${isPlain && html`<p class="problem">${t("plain_http")}<br /><code>ssh -L ${location.port || "80"}:127.0.0.1:${location.port || "80"} ${location.hostname}</code></p>`}
    <form onSubmit=${submit}><label>${t("code")}<input type="text" autocomplete="off" spellcheck="false" value=${text.value} onInput=${(/** @type {any} */ event) => (text.value = event.target.value)} /></label>
      <button type="submit" class="primary">${t("sign_in")}</button></form>
    ${(problem.value || failed) && html`<p class="problem" role="alert">${problem.value || failed}</p>`}
  </main>`;
});
