// The real Claude Code behind the page: an edit is asked about with its diff, approved in the page, and is
// among the changes afterwards.

import fs from "node:fs";
import path from "node:path";
import { Tab, api, check, equal, need, until, withBrowser } from "./browser.mjs";

const file = path.join(need("WORK"), "notes.txt");
fs.writeFileSync(file, "one\ntwo\nthree\n");
const edit = (name, input) => `TOOL:${JSON.stringify([{ name, input }])}:END`;

await withBrowser(async (browser) => {
  const tab = await Tab.signedIn(browser, { width: 1440, height: 900 });
  const { page } = tab;
  const session = await api("POST", "/api/sessions", { cwd: need("WORK"), title: "edit the notes" });
  await tab.go(`#/s/${session.id}`);
  await page.getByLabel("Message", { exact: true }).fill(edit("Write", { file_path: file, content: "one\n2\nthree\n" }) + " ECHO:the second line is a number now");
  await page.getByRole("button", { name: "Send" }).click();
  const card = page.locator(".card.open");
  await card.waitFor({ timeout: 60000 });
  equal(await card.locator(".line.removed").allInnerTexts().then((all) => all.map((one) => one.replace(/^−\s*/, ""))), ["two"]);
  equal(await card.locator(".line.added").allInnerTexts().then((all) => all.map((one) => one.replace(/^\+\s*/, ""))), ["2"]);
  await tab.verify("claude-asks");
  await until("the button works", async () => (await card.getByRole("button", { name: "Once" }).getAttribute("aria-disabled")) === null);
  await card.getByRole("button", { name: "Once" }).click();
  await page.locator(".turn-foot .status.good").waitFor({ timeout: 60000 });
  await page.getByRole("log").getByText("the second line is a number now").first().waitFor();
  equal(fs.readFileSync(file, "utf8"), "one\n2\nthree\n");
  const changes = page.getByRole("region", { name: "Changes", exact: true });
  await changes.getByText("notes.txt").waitFor();
  await tab.verify("claude-changed");
  // What it cost and why it was cold is on the page of costs.
  await tab.go("#/costs");
  await page.getByRole("cell", { name: "default", exact: true }).waitFor();
  // They add up to what the record says.
  const recorded = (await api("GET", `/api/turns?session=${session.id}`)).data.reduce((sum, turn) => sum + turn.usage.cost_usd, 0);
  const shown = Number((await page.locator(".chart .total").first().innerText()).replace("$", ""));
  check(recorded > 0 && Math.abs(shown - recorded) < 0.0001, `the page says ${shown}, the record ${recorded}`);
  await tab.verify("claude-costs");
  // Steering reaches the running turn.
  await tab.go(`#/s/${session.id}`);
  await page.getByLabel("Message", { exact: true }).fill("WORDS:400:20");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".answer.streaming").waitFor({ timeout: 60000 });
  await page.getByLabel("Message", { exact: true }).fill("and be quick");
  await page.getByRole("button", { name: "Steer" }).click();
  await page.locator(".toast").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await until("it is stopped", async () => (await api("GET", `/api/turns?session=${session.id}&limit=5`)).data.some((turn) => turn.status === "interrupted"));
  check((await api("GET", "/api/usage")).data[0].turns >= 2, "turns are counted");
});
