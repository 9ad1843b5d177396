// The address: `#/page/part?filter=…`. Every state that a person may want to return to has one.

import { computed, signal } from "./view.js";

/** @typedef {{page: string, parts: string[], filters: URLSearchParams}} Route */

const address = signal(location.hash);
addEventListener("hashchange", () => (address.value = location.hash));

/** @param {string} hash @returns {Route} */
export function parseRoute(hash) {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...parts] = path.split("/").map(decodeURIComponent);
  return { page, parts: parts.filter(Boolean), filters: new URLSearchParams(search) };
}

export const route = computed(() => parseRoute(address.value));

/** @param {string} path such as `/sessions` */
export function go(path) {
  location.hash = path;
}

/** Changes one filter in the address, without adding to the history. @param {string} name @param {string} value */
export function setFilter(name, value) {
  const { page, parts, filters } = route.peek();
  const next = new URLSearchParams(filters);
  if (value) next.set(name, value);
  else next.delete(name);
  const search = next.toString();
  const path = ["#", page, ...parts.map(encodeURIComponent)].join("/").replace("#//", "#/");
  history.replaceState(null, "", path + (search ? `?${search}` : ""));
  address.value = location.hash;
}
