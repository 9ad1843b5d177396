// A real browser for the tests of the dashboard. It fails a test for every report of the content security
// policy, every error on the console that the test does not expect, and everything that axe finds.

import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import zlib from "node:zlib";
import { createRequire } from "node:module";
import { pipeline } from "node:stream/promises";
import { pathToFileURL } from "node:url";

const modules = path.join(need("DASHBOARD_MODULES"), "/");
const require = createRequire(pathToFileURL(modules));
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const shots = process.env.DASHBOARD_SHOTS ?? "";
export const DEADLINE = 60000;

/** Returns a variable that the test that started this script has set. */
export function need(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run the tests with cargo`);
  return value;
}

export function check(condition, message) {
  if (!condition) throw new Error(message);
}

export function equal(found, expected, message = "") {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${message} found ${one}, not ${other}`);
}

/** Runs the program that is tested. */
export function angelia(...args) {
  return execFileSync(need("ANGELIA"), args, { encoding: "utf8", timeout: 60000 }).trim();
}

async function executable() {
  if (process.env.ANGELIA_TEST_CHROMIUM) return process.env.ANGELIA_TEST_CHROMIUM;
  // Unpacked once, beside the package; renamed into place, because several tests may start at once.
  const unpacked = path.join(modules, "chromium");
  if (!fs.existsSync(unpacked)) {
    const { default: packed } = await import(pathToFileURL(require.resolve("@sparticuz/chromium")).href);
    fs.copyFileSync(await packed.executablePath(), `${unpacked}.${process.pid}`);
    fs.renameSync(`${unpacked}.${process.pid}`, unpacked);
  }
  return unpacked;
}

/** Starts Chromium; on a machine without the libraries of NSS, with those of the package. */
async function launch() {
  const executablePath = await executable();
  const options = { executablePath, headless: true, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] };
  try {
    return await chromium.launch(options);
  } catch (error) {
    if (!String(error).includes("error while loading shared libraries")) throw error;
    const packed = path.join(modules, "node_modules/@sparticuz/chromium/bin/al2023.tar.br");
    const unpacked = fs.mkdtempSync(path.join(os.tmpdir(), "libraries-"));
    await pipeline(fs.createReadStream(packed), zlib.createBrotliDecompress(), require("tar-fs").extract(unpacked));
    return chromium.launch({ ...options, env: { ...process.env, LD_LIBRARY_PATH: path.join(unpacked, "lib") } });
  }
}

/** Starts a browser, runs the test, and ends it whatever happens. */
export async function withBrowser(test) {
  const browser = await launch();
  try {
    await test(browser);
  } finally {
    await browser.close();
  }
}

/** A tab that notes what goes wrong. */
export class Tab {
  problems = [];
  expected = [];

  static async open(browser, { scheme = "light", width = 1280, height = 860, locale = "en-GB", context = null } = {}) {
    const tab = new Tab();
    tab.context = context ?? (await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale }));
    tab.page = await tab.context.newPage();
    tab.page.setDefaultTimeout(DEADLINE);
    tab.page.on("pageerror", (error) => tab.problems.push(`error: ${error.stack ?? error}`));
    tab.page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) tab.problems.push(`${message.type()}: ${message.text()}`);
    });
    await tab.page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => console.error(`CSP ${event.violatedDirective} ${event.blockedURI}`));
    });
    return tab;
  }

  /** Opens the page as `angelia dashboard` does. */
  static async signedIn(browser, options = {}) {
    const tab = await Tab.open(browser, options);
    await tab.page.goto(angelia("dashboard", "--no-open"));
    await tab.page.locator(".rail").waitFor();
    check(!tab.page.url().includes("code="), "the code is still in the address");
    return tab;
  }

  /** A message on the console that belongs to the test. */
  expect(part) {
    this.expected.push(part);
  }

  async go(hash) {
    await this.page.evaluate((to) => void (location.hash = to), hash);
  }

  /** Waits until buttons of approvals can be pressed and colours stand still: axe would measure a colour on its way. */
  async settle() {
    const waiting = this.page.locator('button[data-verdict][aria-disabled="true"]');
    for (let tries = 0; tries < 40 && (await waiting.count()) > 0; tries++) await this.page.waitForTimeout(50);
    await this.page.evaluate(() => {
      const ends = document.getAnimations().filter((one) => one.effect?.getTiming().iterations !== Infinity);
      return Promise.all(ends.map((one) => one.finished.catch(() => null))).then(() => null);
    });
  }

  /** Fails for what has gone wrong, and for what axe finds in the page as it is now. */
  async verify(name) {
    await this.settle();
    const results = await this.page.evaluate(`(async () => {
      ${axe}
      const found = await axe.run(document, { resultTypes: ["violations"] });
      return found.violations.map((one) => one.id + ": " + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | "));
    })()`);
    equal(results, [], `${name}: axe`);
    const problems = this.problems.filter((one) => !this.expected.some((part) => one.includes(part)));
    equal(problems, [], name);
    if (shots) await this.page.screenshot({ path: path.join(shots, `${name}.png`) });
  }
}

/** Waits until a condition holds. */
export async function until(what, holds, deadline = DEADLINE) {
  const end = Date.now() + deadline;
  for (;;) {
    const value = await holds();
    if (value) return value;
    check(Date.now() < end, `it did not come true in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** Calls the API with the owner's token. */
export async function api(method, where, body) {
  const token = fs.readFileSync(path.join(need("ANGELIA_HOME"), "token"), "utf8").trim();
  const address = fs.readFileSync(path.join(need("ANGELIA_HOME"), "run/http.addr"), "utf8").trim();
  const response = await fetch(`http://${address}${where}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  check(response.ok, `${method} ${where}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/** Starts a daemon of this home, for tests that kill it. */
export function startDaemon(listen) {
  return spawn(need("ANGELIA"), ["serve", "--listen", listen], { stdio: "ignore" });
}
