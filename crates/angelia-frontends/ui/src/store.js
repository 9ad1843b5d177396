// The page's data: the lists that several pages show, each read once and then kept up to date by the feed.

import { get, token } from "./api.js";
import { onChange, onReset, readFollowed } from "./feed.js";
import { batch, computed, effect, signal } from "./view.js";

/** @template T @typedef {import("../vendor/signals.js").Signal<T>} Signal */

/** @type {Signal<any[]>} */ export const approvals = signal([]);
/** @type {Signal<Map<string, any>>} */ export const runningTurns = signal(new Map());
/** @type {Signal<Map<string, any>>} */ export const agents = signal(new Map());
/** @type {Signal<Map<string, any>>} */ export const quotas = signal(new Map());
/** @type {Signal<Map<string, any>>} */ export const endpoints = signal(new Map());
/** @type {Signal<Map<string, any>>} */ export const schedules = signal(new Map());
/** @type {Signal<Map<string, any>>} */ export const channels = signal(new Map());
/** @type {Signal<any[]>} */ export const profiles = signal([]);
/** @type {Signal<any>} */ export const daemon = signal(null);
/** @type {Signal<any>} */ export const usageToday = signal(null);
/** @type {Signal<number>} */ export const maxAgents = signal(0);
/** @type {Signal<boolean>} */ export const hasBus = signal(false);
/** @type {Signal<number>} */ export const deadLetters = signal(0);
/** The sessions seen so far, by id. Lists and headings share them. @type {Signal<Map<string, any>>} */
export const sessions = signal(new Map());
/** @type {Signal<boolean>} */ export const isLoaded = signal(false);

const USAGE_DELAY_MS = 1500;
const LOAD_AGAIN_MS = 2000;
let usageTimer = 0;
let loadTimer = 0;

export const FINAL = new Set(["completed", "partial", "interrupted", "failed"]);

/** @param {any[]} list @returns {Map<string, any>} */
export const byId = (list) => new Map(list.map((one) => [one.id, one]));

/** Puts a resource into a map, or removes it if it was deleted. @param {Signal<Map<string, any>>} map @param {any} resource */
export function put(map, resource) {
  const next = new Map(map.peek());
  if (resource.deleted) next.delete(resource.id);
  else next.set(resource.id, resource);
  map.value = next;
}

/** @param {any[]} list */
export function rememberSessions(list) {
  const next = new Map(sessions.peek());
  for (const session of list) next.set(session.id, session);
  sessions.value = next;
}

/** Reads a session unless it is already known. @param {string} id */
export async function needSession(id) {
  if (sessions.peek().has(id)) return;
  const session = await get(`/api/sessions/${id}`).catch(() => null);
  // The feed may have delivered a newer version meanwhile.
  if (session && !sessions.peek().has(id)) put(sessions, session);
}

/** Reads everything that several pages show. */
async function load() {
  const [status, known, schedulesRead, channelsRead] = await Promise.all(["status", "profiles", "schedules", "channels"].map((path) => get(`/api/${path}`)));
  const endpointsRead = status.bus ? await get("/api/bus/endpoints") : { data: [] };
  batch(() => {
    daemon.value = status.daemon;
    approvals.value = status.approvals;
    runningTurns.value = byId(status.turns);
    agents.value = byId(status.agents);
    quotas.value = byId(status.quotas);
    maxAgents.value = status.max_agents ?? 0;
    usageToday.value = status.usage_today;
    hasBus.value = status.bus !== null;
    deadLetters.value = status.bus?.dead ?? 0;
    profiles.value = known.data;
    endpoints.value = byId(endpointsRead.data);
    schedules.value = byId(schedulesRead.data);
    channels.value = byId(channelsRead.data);
    isLoaded.value = true;
  });
  for (const turn of status.turns) void needSession(turn.session_id);
}

/** Reads everything, and retries until that succeeds: nothing else would report earlier changes. */
async function reload() {
  clearTimeout(loadTimer);
  if (!token.peek()) return;
  await readFollowed(load).catch(() => (loadTimer = setTimeout(reload, LOAD_AGAIN_MS)));
}

/** Reads today's usage, a moment after the last of several turns has ended. */
function readUsage() {
  clearTimeout(usageTimer);
  usageTimer = setTimeout(async () => {
    const midnight = new Date();
    midnight.setHours(0, 0, 0, 0);
    const used = await get(`/api/usage?from=${midnight.toISOString()}`).catch(() => null);
    if (used) usageToday.value = used.data[0] ?? usageToday.peek();
  }, USAGE_DELAY_MS);
}

/** How many people are waiting for access. */
export const askingPeople = computed(() => [...channels.value.values()].reduce((sum, channel) => sum + (channel.codes?.length ?? 0), 0));

/** Oldest first, so that a new card never moves the others. */
export const waiting = computed(() => approvals.value.filter((one) => !one.decided).toSorted((a, b) => (a.asked_at < b.asked_at ? -1 : 1)));

export function startStore() {
  onReset(() => void reload());
  onChange("session.changed", (session) => {
    // Include sessions that no list shows yet: a list may have to show them now.
    put(sessions, session);
  });
  onChange("turn.changed", (turn) => {
    const next = new Map(runningTurns.peek());
    if (FINAL.has(turn.status)) {
      next.delete(turn.id);
      readUsage();
    } else next.set(turn.id, turn);
    runningTurns.value = next;
    void needSession(turn.session_id);
  });
  onChange("approval.requested", (approval) => {
    approvals.value = [approval, ...approvals.peek().filter((one) => one.id !== approval.id)];
  });
  onChange("approval.resolved", (approval) => {
    approvals.value = approvals.peek().map((one) => (one.id === approval.id ? approval : one));
  });
  onChange("agent.changed", (agent) => put(agents, agent));
  onChange("quota.changed", (quota) => put(quotas, quota));
  onChange("schedule.changed", (schedule) => put(schedules, schedule));
  onChange("channel.changed", (channel) => put(channels, channel));
  onChange("bus.changed", (endpoint) => put(endpoints, endpoint));
  effect(() => {
    document.title = waiting.value.length ? `(${waiting.value.length}) Angelia` : "Angelia";
  });
}
