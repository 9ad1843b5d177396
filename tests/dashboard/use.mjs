// A person uses the page without a terminal: signs in, starts a session, watches it, decides, steers,
// stops, finds it again, sees what it cost, and signs a browser out. Everything in both themes is clean.

import { Tab, angelia, api, check, equal, need, until, withBrowser } from "./browser.mjs";

const folder = need("WORK");

async function newSession(page, message) {
  await page.getByRole("button", { name: "New session" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Folder").fill(folder);
  await dialog.getByLabel("Message").fill(message);
  await dialog.getByRole("button", { name: "Start" }).click();
  await page.getByRole("log").waitFor();
}

await withBrowser(async (browser) => {
  const tab = await Tab.signedIn(browser);
  const { page } = tab;
  await page.getByText("There are no sessions yet").waitFor();
  await tab.verify("first");

  await newSession(page, "hello from the page");
  const log = page.getByRole("log");
  await log.getByText("hello from the page").first().waitFor();
  await page.locator(".turn-foot .status.good").waitFor();
  await tab.verify("session");

  // A second browser sees the same, and the first decision wins.
  const other = await Tab.signedIn(browser, { scheme: "dark" });
  await page.getByLabel("Message", { exact: true }).fill("!ask rm -rf build");
  await page.getByRole("button", { name: "Send" }).click();
  await until("an approval waits", async () => (await api("GET", "/api/approvals")).data.length === 1);
  const card = page.locator(".card.open");
  await card.waitFor();
  check((await page.title()).startsWith("(1)"), "the title says that something waits");
  await other.go("#/inbox");
  const otherCard = other.page.locator(".card.open");
  await otherCard.waitFor();
  await other.verify("inbox-dark");
  check(!(await other.page.evaluate(() => document.activeElement?.closest(".card"))), "no button has the focus");
  // At once nothing happens, because nobody can have read it.
  await until("the button works", async () => (await otherCard.getByRole("button", { name: "Once" }).getAttribute("aria-disabled")) === null);
  await otherCard.getByRole("button", { name: "Once" }).click();
  await until("it is decided", async () => (await api("GET", "/api/approvals")).data.length === 0);
  await page.locator(".card.open").waitFor({ state: "detached" });
  const [decided] = (await api("GET", "/api/approvals?all=1")).data;
  check(decided.decided.by.startsWith("owner (browser "), decided.decided.by);
  await other.go("#/inbox?show=decided");
  await other.page.getByText("Allowed once").first().waitFor();
  await other.verify("decided-dark");

  // A question is answered by one of its choices.
  await page.getByLabel("Message", { exact: true }).fill("!question");
  await page.getByRole("button", { name: "Send" }).click();
  const question = page.locator(".card.open");
  await question.getByRole("radio").first().check();
  await tab.verify("question");
  await until("the button works", async () => (await question.getByRole("button", { name: "Answer" }).getAttribute("aria-disabled")) === null);
  await question.getByRole("button", { name: "Answer" }).click();
  await until("it is answered", async () => (await api("GET", "/api/turns?limit=1")).data[0].status === "completed");

  // Stop.
  await page.getByLabel("Message", { exact: true }).fill("some words\n!tool Wait\n!hang");
  await page.getByRole("button", { name: "Send" }).click();
  await log.getByText("some words").last().waitFor();
  await other.go("#/live");
  await other.page.locator(".live-row").last().waitFor();
  await other.verify("live-dark");
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await until("it is stopped", async () => (await api("GET", "/api/turns?limit=1")).data[0].status === "interrupted");

  // Everything else is clean too, in both themes.
  for (const [name, words] of [["sessions", "Sessions"], ["costs", "Costs"], ["bus", "Bus"], ["agents", "Agents"], ["channels", "Channels"], ["schedules", "Schedules"], ["settings", "Settings"]]) {
    for (const [one, scheme] of [[tab, "light"], [other, "dark"]]) {
      await one.go(`#/${name}`);
      await one.page.getByRole("heading", { level: 1, name: words }).waitFor();
      if (name === "costs") await one.page.locator(".plot canvas").first().waitFor();
      if (name === "agents") await one.page.locator(".executor").first().waitFor();
      if (name === "settings") await one.page.getByText("this one").waitFor();
      await one.verify(`${name}-${scheme}`);
    }
  }

  // The search finds the title and what was said.
  await page.keyboard.press("/");
  await page.keyboard.type("hello from");
  await until("the address has the search", async () => page.url().includes("q=hello"));
  await page.locator(".grid-row").first().waitFor();
  await page.getByText("Said in conversations").waitFor();
  await tab.verify("search");

  // Keyboard alone: to the list, down, and open.
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.locator(".grid-row").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByRole("log").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await tab.verify("help");
  await page.keyboard.press("Escape");

  // Costs are those of the record.
  const used = await api("GET", "/api/usage");
  await tab.go("#/costs?range=24h&by=executor");
  await page.getByRole("cell", { name: "parrot", exact: true }).waitFor();
  const turns = await page.locator("table.usage tbody tr td:nth-child(4)").first().textContent();
  equal(Number(turns), used.data[0].turns, "turns");
  await page.getByRole("button", { name: "Show as table" }).first().click();
  await tab.verify("table");

  // The other browser is signed out, and sees nothing any more.
  await tab.go("#/settings");
  other.expect("401");
  await page.getByRole("row", { name: /Headless/ }).getByRole("button", { name: "Revoke" }).first().click();
  await other.page.getByText("angelia dashboard").waitFor();
  await other.verify("signed-out-dark");

  // Chinese, and the narrowest screen.
  const narrow = await Tab.signedIn(browser, { width: 320, height: 640, locale: "zh-CN" });
  await narrow.page.getByRole("heading", { level: 1, name: "会话" }).waitFor();
  await narrow.verify("narrow");
  const overflow = await narrow.page.evaluate(() => document.documentElement.scrollWidth);
  check(overflow <= 320, `the page is ${overflow} pixels wide`);
  equal(angelia("approvals", "list", "--json"), "", "nothing waits");
});
