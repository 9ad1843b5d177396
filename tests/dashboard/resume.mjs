// The daemon is killed while a turn runs: the page shows what the record has, without a gap and without
// a word twice, says that the connection is lost, and goes on when the daemon is back.

import fs from "node:fs";
import path from "node:path";
import { Tab, api, check, equal, need, startDaemon, until, withBrowser } from "./browser.mjs";

const home = need("ANGELIA_HOME");
const read = (name) => fs.readFileSync(path.join(home, "run", name), "utf8").trim();
const isReady = () => api("GET", "/api/status").then(() => true, () => false);

let daemon = startDaemon("127.0.0.1:0");
try {
  await until("the daemon serves", isReady);
  const address = read("http.addr");
  await withBrowser(async (browser) => {
    const tab = await Tab.signedIn(browser);
    const { page } = tab;
    const session = await api("POST", "/api/sessions", { cwd: need("WORK") });
    await api("POST", `/api/sessions/${session.id}/turns`, { input: "first words\n!tool Wait\n!hang" });
    await tab.go(`#/s/${session.id}`);
    const log = page.getByRole("log");
    await log.getByText("first words").last().waitFor();
    const pid = Number(read("angelia.pid"));
    equal(pid, daemon.pid);
    tab.expect("Failed to load resource");
    tab.expect("net::ERR");
    process.kill(pid, "SIGKILL");
    await page.getByText("Connection lost").waitFor();
    daemon = startDaemon(address);
    await until("the daemon is back", isReady);
    await page.locator(".connection.live").waitFor();
    await page.locator(".turn .failure").waitFor();
    const text = await page.locator(".turn").innerText();
    equal(text.split("first words").length - 1, await countInput(page), "no word twice");
    await tab.verify("resumed");
  });
  check(true, "");
} finally {
  daemon.kill("SIGTERM");
}

/** The words are in the input and once in the answer. */
async function countInput(page) {
  return (await page.locator(".turn .said").innerText()).split("first words").length - 1 + 1;
}
