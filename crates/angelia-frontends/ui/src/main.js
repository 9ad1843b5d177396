// The page: signs in, then shows the rail, the top bar and the page that the address names.

import { setToken, signIn, token } from "./api.js";
import { connection, startFeed } from "./feed.js";
import { money } from "./format.js";
import { PLACES, showsHelp, startKeyboard } from "./keyboard.js";
import { Empty, Feedback } from "./parts/feedback.js";
import { Icon } from "./parts/icons.js";
import { go, route, setFilter } from "./route.js";
import { notifies, startsSession } from "./settings.js";
import { askingPeople, daemon, deadLetters, isLoaded, runningTurns, startStore, usageToday, waiting } from "./store.js";
import { component, effect, html, render, signal } from "./view.js";
import { language, t } from "./words.js";

/** @typedef {import("../vendor/preact.js").ComponentType<any>} View */

/** The pages: their address, their icon, and how their code is loaded on demand. @type {[string, import("./parts/icons.js").IconName, () => Promise<View>][]} */
const PAGES = [
  ["inbox", "inbox", async () => (await import("./pages/inbox.js")).InboxPage],
  ["sessions", "sessions", async () => (await import("./pages/sessions.js")).SessionsPage],
  ["live", "live", async () => (await import("./pages/live.js")).LivePage],
  ["costs", "costs", async () => (await import("./pages/costs.js")).CostsPage],
  ["bus", "bus", async () => (await import("./pages/bus.js")).BusPage],
  ["agents", "agents", async () => (await import("./pages/agents.js")).AgentsPage],
  ["channels", "channels", async () => (await import("./pages/channels.js")).ChannelsPage],
  ["schedules", "schedules", async () => (await import("./pages/schedules.js")).SchedulesPage],
  ["settings", "settings", async () => (await import("./pages/settings.js")).SettingsPage],
];

/** The loaded views. @type {import("../vendor/signals.js").Signal<Map<string, View>>} */
const views = signal(new Map());

/** Returns a view once its code is loaded. @param {string} name @param {() => Promise<View>} read */
function view(name, read) {
  const known = views.value.get(name);
  if (!known) void read().then((found) => (views.value = new Map(views.peek()).set(name, found)));
  return known ?? null;
}

const readSession = async () => (await import("./pages/session.js")).SessionPage;
const readLogin = async () => (await import("./pages/login.js")).LoginPage;
const readNewSession = async () => (await import("./parts/new_session.js")).NewSession;

/** Returns the login code in an address. @param {string} hash */
const codeOf = (hash) => /#code=([0-9a-f]+)/.exec(hash)?.[1] ?? "";

const loginProblem = signal("");

/** @param {string} page */
function count(page) {
  if (page === "inbox") return waiting.value.length;
  if (page === "live") return runningTurns.value.size;
  if (page === "channels") return askingPeople.value;
  return page === "bus" ? deadLetters.value : 0;
}

const Rail = component(() => () => {
  const here = route.value.page === "s" ? "sessions" : route.value.page;
  return html`<nav class="rail" aria-label=${t("pages")}>
    <a class="brand" href="#/sessions"><img src="/ui/icon.svg" alt="" width="24" height="24" /><span>Angelia</span></a>
    <ul>${PAGES.map(([page, icon]) => html`<li key=${page}><a href=${`#/${page}`} aria-current=${here === page ? "page" : null}><${Icon} name=${icon} /><span class="rail-word">${t(page)}</span>${count(page) > 0 && html`<span class=${`badge ${page}`}>${count(page)}</span>`}</a></li>`)}</ul>
    <p class="rail-foot faint"><span>${usageToday.value && t("today_cost", money(usageToday.value.cost_usd ?? 0))}</span><span>${daemon.value && `v${daemon.value.version}`}</span></p>
  </nav>`;
});

const TopBar = component(() => {
  let timer = 0;
  const search = (/** @type {any} */ event) => {
    const words = event.target.value;
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (route.peek().page === "sessions") setFilter("q", words);
      else if (words) go(`/sessions?q=${encodeURIComponent(words)}`);
    }, 150);
  };
  return () => html`<header class="top">
    <form role="search" class="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}><${Icon} name="search" />
      <input id="search" type="search" role="searchbox" aria-label=${t("search")} placeholder=${t("search_hint")} value=${route.value.filters.get("q") ?? ""} onInput=${search} /><kbd aria-hidden="true">/</kbd></form>
    <span class=${`connection ${connection.value}`} role="status"><span class="shape" aria-hidden="true">●</span> <span class="connection-word">${t(`connection_${connection.value}`)}</span></span>
    <button type="button" class="quiet" aria-label=${t("help")} onClick=${() => (showsHelp.value = true)}>?</button>
  </header>`;
});

const Help = component((life) => {
  /** @type {{current: HTMLDialogElement | null}} */
  const dialog = { current: null };
  life.onMount(() => effect(() => (showsHelp.value ? !dialog.current?.open && dialog.current?.showModal() : dialog.current?.open && dialog.current.close())));
  const keys = () => [["/", t("key_search")], ["j k", t("key_move")], ["o ⏎", t("key_open")], ["n", t("new_session")], ...Object.entries(PLACES).map(([key, path]) => [`g ${key}`, t(path.slice(1))]), ["?", t("help")]];
  return () => html`<dialog class="dialog" aria-labelledby="help" ref=${(/** @type {any} */ element) => (dialog.current = element)} onClose=${() => (showsHelp.value = false)}>
    <h2 id="help">${t("help")}</h2><dl class="keys-list">${keys().map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <div class="buttons end"><button type="button" onClick=${() => (showsHelp.value = false)}>${t("close")}</button></div></dialog>`;
});

function page() {
  const { page, parts } = route.value;
  if (page === "s" && parts[0]) {
    const Session = view("session", readSession);
    return Session && html`<${Session} key=${`${parts[0]}/${parts[1] ?? ""}`} id=${parts[0]} turn=${parts[1] ?? null} />`;
  }
  const found = PAGES.find(([name]) => name === page);
  if (!found) return html`<section class="page"><h1>${t("no_page")}</h1><${Empty} title=${t("no_page_more")} /></section>`;
  const Page = view(page, found[2]);
  return Page && html`<${Page} key=${page} />`;
}

const Shell = component((life) => {
  // The inbox is the start page when something is waiting.
  life.onMount(() => effect(() => isLoaded.value && route.value.page === "" && go(waiting.peek().length ? "/inbox" : "/sessions")));
  return () => {
    const NewSession = startsSession.value ? view("new_session", readNewSession) : null;
    return html`<a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => (event.preventDefault(), document.getElementById("main")?.focus())}>${t("skip")}</a>
    <${Rail} /><${TopBar} />
    <main id="main" tabindex="-1">${route.value.page !== "" && page()}</main>
    <div class="unseen" aria-live="assertive">${waiting.value.length > 0 && t("waiting_count", waiting.value.length)}</div>
    ${NewSession && html`<${NewSession} />`}<${Help} /><${Feedback} />`;
  };
});

const Root = component(() => () => {
  const Login = token.value ? null : view("login", readLogin);
  return html`<div class=${token.value ? "app" : "app alone"} lang=${language.value} key=${language.value}>${token.value ? html`<${Shell} />` : Login && html`<${Login} failed=${loginProblem.value} />`}</div>`;
});

async function start() {
  const code = codeOf(location.hash);
  if (code) {
    // Do this first, so that no history, screenshot or bookmark contains the code.
    history.replaceState(null, "", `${location.pathname}#/`);
    dispatchEvent(new HashChangeEvent("hashchange"));
    try {
      await signIn(code);
    } catch (error) {
      const known = /** @type {any} */ (error);
      loginProblem.value = `${known.message}${known.hint ? `. ${known.hint}` : ""}`;
      if (known.status === 401) setToken(null);
    }
  }
  effect(() => void (document.documentElement.lang = language.value));
  startStore();
  startFeed();
  startKeyboard();
  if (notifies.peek()) void import("./notify.js").then(({ startNotifications }) => startNotifications());
  render(html`<${Root} />`, document.body);
}

void start();
