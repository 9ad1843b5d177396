// Measures the page: its weight, how soon it can be used, long lists and long turns, fast text, and many
// tabs. Prints one JSON object for each figure.

import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";
import { Tab, api, need, until, withBrowser } from "./browser.mjs";

const ROUNDS = Number(process.env.ROUNDS ?? 20);
const print = (name, value, unit, limit = null) => console.log(JSON.stringify({ name, value, unit, limit }));
const sorted = (values) => values.toSorted((a, b) => a - b);
const quantile = (values, part) => sorted(values)[Math.min(values.length - 1, Math.floor(values.length * part))];
const address = fs.readFileSync(path.join(need("ANGELIA_HOME"), "run/http.addr"), "utf8").trim();
const pid = Number(fs.readFileSync(path.join(need("ANGELIA_HOME"), "run/angelia.pid"), "utf8"));

async function times(count, action) {
  const found = [];
  for (let round = 0; round < count; round += 1) {
    const begun = performance.now();
    await action();
    found.push(performance.now() - begun);
  }
  return found;
}

/** The processor time of the daemon, in seconds. */
function cpuTime() {
  const fields = fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const residentMegabytes = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;

async function server() {
  const sessions = await times(ROUNDS * 5, () => api("GET", "/api/sessions?limit=200&sort=updated"));
  print("GET /api/sessions?limit=200, p50", quantile(sessions, 0.5), "ms");
  print("GET /api/sessions?limit=200 at 100,000 sessions, p99", quantile(sessions, 0.99), "ms", 10);
  const running = await times(ROUNDS, () => api("GET", "/api/sessions?limit=200&sort=updated&status=running"));
  print("… only those that run, p99", quantile(running, 0.99), "ms");
  const from = new Date(Date.now() - 30 * 864e5).toISOString();
  const usage = await times(ROUNDS, () => api("GET", `/api/usage?bucket=hour&from=${from}`));
  print("usage of 30 days by hour, p99", quantile(usage, 0.99), "ms", 20);
}

async function weight(browser) {
  const tab = await Tab.signedIn(browser);
  const { page } = tab;
  let [requests, raw, packed] = [0, 0, 0];
  const files = [];
  page.on("response", (response) => {
    const url = new URL(response.url());
    if (url.pathname === "/" || url.pathname.startsWith("/ui/")) files.push(response);
  });
  const ready = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    files.length = 0;
    await page.goto("about:blank");
    await page.goto(`http://${address}/#/sessions`);
    await page.locator(".grid-row").first().waitFor();
    ready.push(await page.evaluate(() => performance.getEntriesByName("rows")[0]?.startTime ?? performance.now()));
  }
  for (const response of files) {
    const body = await response.body().catch(() => fs.readFileSync(path.join(import.meta.dirname, "../../crates/angelia-frontends/ui", new URL(response.url()).pathname.replace(/^\/ui/, "") || "index.html")));
    requests += 1;
    raw += body.length;
    packed += zlib.gzipSync(body).length;
  }
  print("files of the first load", requests, "requests", 25);
  print("first load", raw / 1000, "KB", 160);
  print("first load, gzip", packed / 1000, "KB", 50);
  const first = await page.evaluate(() => performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd);
  print("page read and run", first, "ms", 300);
  print("first rows of the list, p50", quantile(ready, 0.5), "ms");
  await tab.context.close();
}

async function list(browser) {
  const tab = await Tab.signedIn(browser);
  const { page } = tab;
  await tab.go("#/sessions");
  await page.locator(".grid-row").first().waitFor();
  const grid = page.getByRole("grid");
  await until("ten thousand rows are read", async () => {
    await grid.evaluate((element) => void (element.scrollTop = element.scrollHeight));
    return Number(await grid.getAttribute("aria-rowcount")) >= 10000;
  }, 120000);
  const frames = await grid.evaluate(async (element) => {
    const found = [];
    let last = performance.now();
    for (let step = 0; step < 300; step += 1) {
      element.scrollTop = step * 900;
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      found.push(now - last);
      last = now;
    }
    return found;
  });
  print("scrolling 10,000 rows, frame p50", quantile(frames, 0.5), "ms");
  print("scrolling 10,000 rows, frame p99", quantile(frames, 0.99), "ms", 25);
  print("nodes of 10,000 rows", await page.locator(".grid *").count(), "nodes");
  const session = await tab.context.newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  print("heap with 10,000 rows", usedSize / 1e6, "MB", 30);
  await tab.context.close();
}

/** Runs in the page: how long after the engine has shown them the words of a turn arrive. */
async function delays(turn) {
  const headers = { Authorization: `Bearer ${localStorage.getItem("angelia.token")}` };
  const response = await fetch(`/api/turns/${turn}/events`, { headers });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const found = [];
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) return found;
    const now = performance.timeOrigin + performance.now();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.filter((one) => one.startsWith("data: ") && one.includes('"text.delta"'))) found.push(now - Date.parse(JSON.parse(line.slice(6)).time));
  }
}

async function turns(browser) {
  const tab = await Tab.signedIn(browser);
  const { page } = tab;
  const begun = performance.now();
  await tab.go(`#/s/${need("LONG_SESSION")}`);
  await page.getByText("earlier steps").waitFor({ timeout: 60000 });
  await page.locator(".turn-foot").waitFor();
  print("a turn of 20,000 events is shown", performance.now() - begun, "ms", 500);

  const session = await api("POST", "/api/sessions", { cwd: need("WORK") });
  await tab.go(`#/s/${session.id}`);
  await page.getByRole("log").waitFor();
  await page.evaluate(() => {
    window.longTasks = [];
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => one.duration))).observe({ type: "longtask" });
  });
  const { id } = await api("POST", `/api/sessions/${session.id}/turns`, { input: "!words 1000 5" });
  const late = await page.evaluate(delays, id);
  print("a word is at the page, p50", quantile(late, 0.5), "ms");
  print("a word is at the page, p99", quantile(late, 0.99), "ms", 30);
  await page.locator(".turn-foot .status.good").waitFor({ timeout: 60000 });
  const long = await page.evaluate(() => window.longTasks);
  print("longest task at 200 deltas a second", Math.max(0, ...long), "ms", 50);
  await tab.context.close();
}

async function tabs(browser) {
  const open = [await Tab.signedIn(browser)];
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const memory = residentMegabytes();
  for (let count = 0; count < 10; count += 1) open.push(await Tab.signedIn(browser));
  await new Promise((resolve) => setTimeout(resolve, 2000));
  print("the daemon for each of 10 tabs", (residentMegabytes() - memory) / 10, "MB", 1);
  const [before, begun] = [cpuTime(), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, 15000));
  print("the daemon with 10 idle tabs", ((cpuTime() - before) / ((performance.now() - begun) / 1000)) * 100, "% of a core", 1);
  for (const tab of open) await tab.context.close();
}

await server();
await withBrowser(async (browser) => {
  await weight(browser);
  await list(browser);
  await turns(browser);
  await tabs(browser);
});
