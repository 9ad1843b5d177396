// Decisions: nobody approves what they have not seen, what hides in a text is shown, and of two people the
// first one decides.

import { Tab, api, check, equal, need, until, withBrowser } from "./browser.mjs";

const waiting = async () => (await api("GET", "/api/approvals")).data;
const ask = async (words) => {
  const session = await api("POST", "/api/sessions", { title: words, cwd: need("WORK") });
  await api("POST", `/api/sessions/${session.id}/turns`, { input: `!ask ${words}` });
};
const isReady = (button) => until("the button works", async () => (await button.getAttribute("aria-disabled")) === null);

await withBrowser(async (browser) => {
  const tab = await Tab.signedIn(browser);
  const { page } = tab;
  await tab.go("#/inbox");
  await page.getByText("Nothing waits for you").waitFor();
  await tab.verify("nothing-waits");

  // A text that turns itself around is shown as it is, wherever it is.
  const hidden = "echo safe \u202e# \u2066rm -rf /\u2069\u200b";
  await ask(hidden);
  const card = page.locator(".card.open");
  await card.waitFor();
  const shown = await card.innerText();
  check(!/[\u202e\u2066\u2069\u200b]/.test(shown), `something is hidden: ${shown}`);
  for (const mark of ["⟦U+202E⟧", "⟦U+2066⟧", "⟦U+2069⟧", "⟦U+200B⟧"]) check(shown.includes(mark), `${mark}: ${shown}`);

  // No button has the focus, and none works at once.
  check(!(await page.evaluate(() => document.activeElement?.closest(".card"))), "no button has the focus");
  await page.evaluate(() => {
    // A click in the moment in which a card appears; nothing may come of it.
    new MutationObserver((changes) => {
      for (const { addedNodes } of changes) for (const node of addedNodes) node.querySelector?.("[data-verdict=once]")?.click();
    }).observe(document.querySelector("main"), { childList: true, subtree: true });
  });
  await tab.go("#/live");
  await page.locator(".live-row").waitFor();
  await tab.go("#/inbox");
  await card.waitFor();
  await isReady(card.getByRole("button", { name: "Once" }));
  equal((await waiting()).length, 1, "a click that was too early decides nothing;");

  // Cards that come later wait behind a button: nothing moves under the pointer.
  const place = await card.boundingBox();
  await ask("second command");
  await page.getByRole("button", { name: /1 new/ }).waitFor();
  equal(await card.boundingBox(), place, "the card has moved;");
  equal(await page.locator(".card.open").count(), 1);
  await tab.verify("one-new");
  await page.getByRole("button", { name: /1 new/ }).click();
  await page.locator(".card.open").nth(1).waitFor();

  // What holds for longer needs a second press.
  const first = page.locator(".card.open").first();
  const session = first.locator("[data-verdict=session]");
  await isReady(session);
  await session.click();
  await first.getByRole("button", { name: /again/i }).waitFor();
  equal((await waiting()).length, 2, "one press is not enough;");
  await tab.verify("second-press");
  await session.click();
  await until("it is decided", async () => (await waiting()).length === 1);

  // Two browsers, and one is a moment later: the first decides, and the other is told.
  const other = await Tab.signedIn(browser, { scheme: "dark" });
  await other.go("#/inbox");
  const [mine, theirs] = [page, other.page].map((one) => one.locator(".card.open", { hasText: "second command" }));
  await theirs.waitFor();
  const [once, deny] = [mine.getByRole("button", { name: "Once" }), theirs.getByRole("button", { name: "Deny" })];
  await Promise.all([isReady(once), isReady(deny)]);
  other.expect("409");
  await other.page.route("**/api/approvals/*", async (late) => {
    await once.click();
    await until("it is decided", async () => (await waiting()).length === 0);
    await late.continue();
  });
  await deny.click();
  await other.page.locator(".toast.bad").waitFor();
  const [{ decided: verdict }] = (await api("GET", "/api/approvals?all=1")).data.filter((one) => one.title.includes("second command"));
  equal(verdict.verdict, "once");
  for (const one of [page, other.page]) await one.locator(".card.open").first().waitFor({ state: "detached" });
  await other.go("#/inbox?show=decided");
  await other.page.getByText("owner (browser").first().waitFor();
  await other.verify("decided-by-whom");
  await tab.verify("all-decided");
});
