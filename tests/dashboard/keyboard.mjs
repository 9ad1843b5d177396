// A person without a mouse: from the sign-in to a decision, every step by keys, and always with a visible
// focus.

import { Tab, angelia, api, check, equal, need, until, withBrowser } from "./browser.mjs";

/** Presses a key until the focus is where it should be. */
async function reach(page, name, key = "Tab", most = 60) {
  for (let press = 0; press < most; press += 1) {
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      return element?.getAttribute("aria-label") || element?.labels?.[0]?.innerText.split("\n")[0] || element?.innerText || "";
    });
    if (focused.trim().startsWith(name)) return;
    await page.keyboard.press(key);
  }
  throw new Error(`the focus never came to ${name}`);
}

await withBrowser(async (browser) => {
  const tab = await Tab.open(browser);
  const { page } = tab;
  // Without a code the page says how to get one, and takes it.
  const address = angelia("dashboard", "--no-open");
  await page.goto(address.split("#")[0]);
  await page.getByText("angelia dashboard").waitFor();
  await tab.verify("sign-in");
  await reach(page, "Or paste");
  await page.keyboard.type(address.split("#code=")[1]);
  await page.keyboard.press("Enter");
  await page.locator(".rail").waitFor();

  // The first Tab offers to skip the rail.
  await page.keyboard.press("Tab");
  equal(await page.evaluate(() => document.activeElement?.className), "skip");
  await page.keyboard.press("Enter");
  equal(await page.evaluate(() => document.activeElement?.id), "main");

  await page.keyboard.press("n");
  await page.getByRole("dialog").waitFor();
  await tab.verify("new-session");
  await reach(page, "Folder");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type(need("WORK"));
  await reach(page, "Message");
  await page.keyboard.type("!ask make it so");
  await page.keyboard.press("ControlOrMeta+Enter");
  await page.getByRole("log").waitFor();
  await until("an approval waits", async () => (await api("GET", "/api/approvals")).data.length === 1);

  // To the inbox, to the card, and to its first button.
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("g");
  await page.keyboard.press("i");
  const card = page.locator(".card.open");
  await card.waitFor();
  // The page listens for keys a moment after it has drawn the card.
  await until("j goes to the card", async () => {
    await page.keyboard.press("j");
    return page.evaluate(() => document.activeElement?.classList.contains("card"));
  });
  await until("the button works", async () => (await card.getByRole("button", { name: "Once" }).getAttribute("aria-disabled")) === null);
  await reach(page, "Once");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  check(outline !== "none", "the focus is seen");
  await page.keyboard.press("Enter");
  await until("it is decided", async () => (await api("GET", "/api/approvals")).data.length === 0);

  // Back to the session by the list, and on with the conversation.
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.locator(".grid-row").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("o");
  await page.getByRole("log").waitFor();
  await reach(page, "Message");
  await page.keyboard.type("and then?");
  await page.keyboard.press("Enter");
  await page.getByRole("log").getByText("and then?").first().waitFor();
  await until("it is answered", async () => (await api("GET", "/api/turns?limit=1")).data[0].status === "completed");
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await tab.verify("keys");
  await page.keyboard.press("Escape");
  for (const [key, heading] of [["l", "Live"], ["c", "Costs"], ["b", "Bus"], ["a", "Agents"], ["h", "Channels"], ["d", "Schedules"], ["e", "Settings"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await page.getByRole("heading", { level: 1, name: heading }).waitFor();
  }
});
