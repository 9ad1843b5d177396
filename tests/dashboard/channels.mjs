// The chat platforms: the connection is shown, and so is a person who asks to be let in, until the owner has
// done so in a terminal.

import { Tab, angelia, api, check, until, withBrowser } from "./browser.mjs";

await withBrowser(async (browser) => {
  const tab = await Tab.signedIn(browser);
  const { page } = tab;
  await until("it is connected", async () => (await api("GET", "/api/channels")).data[0].state === "connected");
  await tab.go("#/channels");
  await page.getByRole("row", { name: /telegram/ }).getByText("connected").waitFor();
  const [code] = await until("a code was made", async () => (await api("GET", "/api/channels")).data[0].codes);
  check(code.name.length > 0, "the person has a name");
  await page.getByText(`angelia access approve ${code.id}`).waitFor();
  await page.locator(".badge.channels").waitFor();
  await tab.verify("channels-asking");
  angelia("access", "approve", code.id);
  await page.getByText("Asking to be let in").waitFor({ state: "detached" });
  await tab.verify("channels-connected");
});
