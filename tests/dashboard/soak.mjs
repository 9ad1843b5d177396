// Five tabs stay open while turns run: their memory does not grow, and neither does that of the daemon.
// `DASHBOARD_SOAK_SECONDS` says for how long.

import fs from "node:fs";
import path from "node:path";
import { Tab, api, check, need, until, withBrowser } from "./browser.mjs";

const SECONDS = Number(process.env.DASHBOARD_SOAK_SECONDS ?? 20);
const PAGES = ["sessions", "live", "costs", "inbox"];
/** What caches of the browser and a longer list may add, in megabytes. */
const [MOST_IN_PAGE, MOST_IN_DAEMON] = [8, 40];

const pid = Number(fs.readFileSync(path.join(need("ANGELIA_HOME"), "run/angelia.pid"), "utf8"));
const daemonMegabytes = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;

async function heapMegabytes({ cdp }) {
  await cdp.send("HeapProfiler.collectGarbage");
  return (await cdp.send("Runtime.getHeapUsage")).usedSize / 1e6;
}

/** One turn from the start to the end; it is seen by all tabs. */
async function work(session) {
  const { id } = await api("POST", `/api/sessions/${session}/turns`, { input: "again\n!tool Read 5\n!words 60 5" });
  await until("the turn has ended", async () => (await api("GET", `/api/turns/${id}`)).status === "completed");
}

await withBrowser(async (browser) => {
  const { id: session } = await api("POST", "/api/sessions", { title: "soak", cwd: need("WORK") });
  const tabs = [];
  for (const page of [...PAGES, `s/${session}`]) {
    const tab = await Tab.signedIn(browser);
    tab.cdp = await tab.context.newCDPSession(tab.page);
    await tab.go(`#/${page}`);
    tabs.push(tab);
  }
  // What is read once is read before the measure begins.
  for (let turn = 0; turn < 5; turn += 1) await work(session);
  const before = await Promise.all(tabs.map(heapMegabytes));
  const daemon = daemonMegabytes();
  const end = Date.now() + SECONDS * 1000;
  let turns = 0;
  while (Date.now() < end) {
    await work(session);
    turns += 1;
  }
  // The tab with the conversation holds it; opened anew, it holds as much of it as at first.
  await tabs.at(-1).page.reload();
  await tabs.at(-1).page.getByRole("log").waitFor();
  const after = await Promise.all(tabs.map(heapMegabytes));
  const grown = after.map((now, index) => now - before[index]);
  const more = daemonMegabytes() - daemon;
  console.log(JSON.stringify({ turns, grown: grown.map((one) => one.toFixed(2)), daemon: more.toFixed(1) }));
  check(grown.every((one) => one < MOST_IN_PAGE), `a tab has grown by ${grown.map((one) => one.toFixed(1))} MB in ${turns} turns`);
  check(more < MOST_IN_DAEMON, `the daemon has grown by ${more.toFixed(1)} MB in ${turns} turns`);
  for (const [index, tab] of tabs.entries()) await tab.verify(`soak-${index}`);
});
