// Requests to `/api` with this browser's token. The token is in `localStorage`, which belongs to this port
// alone. It is sent only as a header, so no other page can use it.

import { signal } from "./view.js";

const KEY = "angelia.token";

/** @type {import("../vendor/signals.js").Signal<string | null>} */
export const token = signal(localStorage.getItem(KEY));

/** @param {string | null} value */
export function setToken(value) {
  if (value === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, value);
  token.value = value;
}

/** A failed request: what failed, and what to do about it. */
export class ApiError extends Error {
  /** @param {number} status @param {{kind?: string, message?: string, hint?: string | null}} [detail] */
  constructor(status, detail = {}) {
    super(detail.message ?? `the daemon answered ${status}`);
    this.status = status;
    this.kind = detail.kind ?? "internal";
    this.hint = detail.hint ?? null;
  }
}

/**
 * Sends a request. If the token is no longer valid, signs this browser out.
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function send(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token.peek()) headers.set("Authorization", `Bearer ${token.peek()}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", redirect: "error" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, { kind: "unreachable", message: "unreachable" });
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "/api/login") setToken(null);
  throw new ApiError(response.status, body.error);
}

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, signal) {
  return (await send(path, signal ? { signal } : {})).json();
}

/** @param {"POST" | "PATCH" | "DELETE"} method @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export async function call(method, path, body) {
  /** @type {RequestInit} */
  const options = { method };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const response = await send(path, options);
  return response.status === 204 ? null : response.json();
}

/** Builds a query string, without empty values. @param {Record<string, string | number | null | undefined>} values */
export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
  return text && `?${text}`;
}

/** Exchanges the code from the address for a token. @param {string} code */
export async function signIn(code) {
  const login = await call("POST", "/api/login", { code });
  setToken(login.token);
}
