// The bus: a message is sent and waits, becomes a dead letter when nobody comes for it, and is sent again.

import { Tab, api, check, equal, until, withBrowser } from "./browser.mjs";

const queued = async () => (await api("GET", "/api/bus/messages?endpoint=nobody")).data;
const dead = async () => (await api("GET", "/api/bus/dead")).data;

await withBrowser(async (browser) => {
  const tab = await Tab.signedIn(browser);
  const { page } = tab;
  await tab.go("#/bus");
  const send = async (text) => {
    await page.getByLabel("To", { exact: true }).fill("nobody");
    await page.getByLabel("Message", { exact: true }).fill(text);
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.locator(".toast", { hasText: "Queued" }).waitFor();
  };
  await send("is anybody there?");
  equal((await queued()).map((one) => one.text), ["is anybody there?"]);
  const endpoint = page.getByRole("button", { name: /nobody/ });
  await endpoint.click();
  await page.getByText("is anybody there?").first().waitFor();
  check(page.url().includes("endpoint=nobody"), "the endpoint is in the address");
  await tab.verify("bus-queued");

  // Nobody came in time.
  const resend = page.getByRole("button", { name: "Resend" });
  await resend.first().waitFor();
  await tab.verify("bus-dead");
  equal((await dead()).length, 1);
  await resend.first().click();
  await until("it waits again", async () => (await queued()).length === 1 && (await dead()).length === 0);

  // And what nobody wants any more is thrown away.
  const discard = page.getByRole("button", { name: "Discard" });
  await discard.first().waitFor();
  await discard.first().click();
  await until("it is gone", async () => (await dead()).length === 0 && (await queued()).length === 0);
  await page.getByText("No dead letters").waitFor();

  // A message to the daemon itself arrives before the eyes of whoever looks.
  await api("POST", "/api/bus/messages", { to: "angelia", text: "hello \u202ebus" });
  await page.getByText("hello ⟦U+202E⟧bus").first().waitFor();
  await tab.verify("bus-arrived");
});
