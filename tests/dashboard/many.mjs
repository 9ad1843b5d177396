// Many sessions: only the rows in view are in the page, filters are in the address, the list is read page
// by page, and the feed is closed while the tab is hidden.

import { Tab, api, check, equal, need, until, withBrowser } from "./browser.mjs";

const COUNT = Number(process.env.DASHBOARD_SESSIONS ?? 1200);

await withBrowser(async (browser) => {
  const make = async (index) => api("POST", "/api/sessions", { title: `session number ${index}`, cwd: need("WORK") });
  for (let index = 0; index < COUNT; index += 20) await Promise.all(Array.from({ length: 20 }, (_, at) => make(index + at)));
  const tab = await Tab.signedIn(browser);
  const { page } = tab;
  await tab.go("#/sessions");
  await page.locator(".grid-row").first().waitFor();
  const rows = await page.locator(".grid-row").count();
  check(rows < 60, `${rows} rows are in the page`);
  const grid = page.getByRole("grid");
  await until("the next pages are read", async () => {
    await grid.evaluate((element) => void (element.scrollTop = element.scrollHeight));
    return Number(await grid.getAttribute("aria-rowcount")) > COUNT;
  });
  check((await page.locator(".grid-row").count()) < 60, "still few rows");
  await tab.verify("many");
  await tab.go("#/sessions?q=number+77&status=completed");
  await page.getByText("Nothing matches").waitFor();
  await page.getByLabel("Status").selectOption("");
  await until("the filter has left the address", async () => !page.url().includes("status="));
  await page.getByRole("link", { name: "session number 77", exact: true }).waitFor();
  check(page.url().includes("q=number"), "the other filter is still there");
  // A tab that nobody looks at follows nothing.
  let open = 0;
  page.on("request", (request) => request.url().endsWith("/api/events") && (open += 1));
  await page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { get: () => window.fakeVisibility ?? "visible", configurable: true });
    window.fakeVisibility = "hidden";
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.locator(".connection.paused").waitFor();
  await api("POST", "/api/sessions", { title: "made meanwhile", cwd: need("WORK") });
  await page.evaluate(() => {
    window.fakeVisibility = "visible";
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.locator(".connection.live").waitFor();
  equal(open, 1, "one stream again");
  await tab.go("#/sessions");
  await page.getByRole("link", { name: "made meanwhile" }).waitFor();
});
