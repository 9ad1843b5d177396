// Keyboard control: one key moves the focus, two keys change the page.

import { go } from "./route.js";
import { startsSession } from "./settings.js";
import { signal } from "./view.js";

export const showsHelp = signal(false);

/** @type {Record<string, string>} */
export const PLACES = { i: "/inbox", s: "/sessions", l: "/live", c: "/costs", b: "/bus", a: "/agents", h: "/channels", d: "/schedules", e: "/settings" };

/** @param {EventTarget | null} target */
const isTyping = (target) => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Moves the focus between the cards or rows of a page. @param {number} step */
function move(step) {
  const items = [...document.querySelectorAll("main .card, main .turn, main .rows > li")].filter((one) => one instanceof HTMLElement);
  const grid = /** @type {HTMLElement | null} */ (document.querySelector("main .grid-row[tabindex='0']"));
  if (!items.length) return grid?.focus();
  const at = items.findIndex((one) => one.contains(document.activeElement));
  const next = /** @type {HTMLElement | undefined} */ (items[Math.max(0, Math.min(items.length - 1, at + step))]);
  if (!next) return;
  next.tabIndex = -1;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

export function startKeyboard() {
  let goes = false;
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (isTyping(event.target)) /** @type {HTMLElement} */ (event.target).blur();
      showsHelp.value = false;
    }
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const place = goes ? PLACES[event.key] : undefined;
    goes = !goes && event.key === "g";
    if (place) go(place);
    else if (event.key === "/") document.getElementById("search")?.focus();
    else if (event.key === "?") showsHelp.value = !showsHelp.peek();
    else if (event.key === "n") startsSession.value = true;
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "o") document.activeElement?.querySelector("a")?.click();
    else return;
    event.preventDefault();
  });
}
