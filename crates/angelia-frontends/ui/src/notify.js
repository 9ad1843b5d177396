// Shows a desktop notification when something waits for the owner and this tab is not visible.

import { readable } from "./format.js";
import { onChange } from "./feed.js";
import { go } from "./route.js";
import { notifies } from "./settings.js";
import { t } from "./words.js";

let isStarted = false;

export function startNotifications() {
  if (isStarted) return;
  isStarted = true;
  onChange("approval.requested", (approval) => {
    if (!notifies.peek() || document.hasFocus() || !("Notification" in window) || Notification.permission !== "granted") return;
    const note = new Notification(t("asks", readable(approval.tool)), { body: readable(approval.title), tag: approval.id });
    note.onclick = () => (window.focus(), go("/inbox"), note.close());
  });
}
