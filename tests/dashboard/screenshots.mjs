// Makes the pictures of the README; the test `real_browser_takes_the_pictures` runs it, and puts them into
// `docs/images` with `UPDATE_DOCS=1`.

import path from "node:path";
import { Tab, api, need, until, withBrowser } from "./browser.mjs";

const folder = process.argv[2] ?? ".";
const project = need("PROJECT");
const RESTS = ["completed", "failed", "awaiting_approval", "interrupted"];

/** Runs a turn to its end, or until it asks. */
async function turn(title, inputs) {
  const session = await api("POST", "/api/sessions", { title, cwd: project });
  for (const input of inputs) {
    const { id } = await api("POST", `/api/sessions/${session.id}/turns`, { input });
    await until("the turn rests", async () => RESTS.includes((await api("GET", `/api/turns/${id}`)).status), 60000);
  }
  return session;
}

/** Takes a picture in which this machine's own paths are those of anybody. */
async function picture(tab, name) {
  await tab.page.evaluate(([real, shown]) => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replaceAll(real, shown);
  }, [project, "/home/ada/shellwords"]);
  await tab.page.screenshot({ path: path.join(folder, name) });
}

for (const title of ["why is the cache cold after an update?", "rename the config module", "translate the README", "summarise yesterday's incidents"]) await turn(title, [title]);
await turn("write tests for the ledger", ["write tests for the ledger", "and for its errors"]);
await turn("review the retry policy", ["review the retry policy", "what about jitter?", "apply it"]);
const parser = await turn("fix the parser for escaped quotes", ["What does the parser do with an escaped quote? Fix it."]);
await turn("find the flaky test", ["Which of the tests of the bus is flaky?"]);

await withBrowser(async (browser) => {
  const light = await Tab.signedIn(browser, { width: 1440, height: 900 });
  await light.go(`#/s/${parser.id}`);
  const card = light.page.locator(".card.open");
  await until("its buttons work", async () => (await card.getByRole("button", { name: "Once" }).getAttribute("aria-disabled")) === null);
  await picture(light, "dashboard-session.png");
  const dark = await Tab.signedIn(browser, { width: 1440, height: 900, scheme: "dark" });
  await dark.go("#/inbox");
  const last = dark.page.locator(".card.open").nth(1);
  await until("its buttons work", async () => (await last.getByRole("button", { name: "Once" }).getAttribute("aria-disabled")) === null);
  await picture(dark, "dashboard-inbox.png");
  for (const tab of [light, dark]) await tab.verify("pictures");
});
