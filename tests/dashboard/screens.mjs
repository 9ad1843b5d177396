// Every page on every screen, from a watch-sized window to a wall, in both themes and both languages: nothing
// is wider than the screen, and axe finds nothing.

import { Tab, api, check, need, until, withBrowser } from "./browser.mjs";

const LONG = "a name that is much longer than any column of any list, and has_no_place_to_break_anywhere_in_its_second_half_at_all";
const PAGES = ["inbox", "sessions", "live", "costs", "bus", "agents", "channels", "schedules", "settings", "nowhere"];
const SCREENS = [
  [320, 640, "light", "zh-CN"],
  [360, 740, "dark", "en-GB"],
  // Half of a usual screen: the same as a zoom of 200 %.
  [720, 450, "light", "en-GB"],
  [1024, 768, "dark", "zh-CN"],
  [1680, 1050, "light", "en-GB"],
  [3840, 2160, "dark", "en-GB"],
];

const session = await api("POST", "/api/sessions", { title: LONG, cwd: need("WORK") });
const turn = async (input, status) => {
  const { id } = await api("POST", `/api/sessions/${session.id}/turns`, { input });
  await until(`the turn is ${status}`, async () => (await api("GET", `/api/turns/${id}`)).status === status);
};
await turn(`${LONG}\n!think ${LONG}\n!tool Read 10\n# A heading\n\n| a | b |\n|---|---|\n| ${LONG} | 2 |\n\n\`\`\`sh\necho ${LONG} ${LONG}\n\`\`\``, "completed");
await turn("!fail server", "failed");
await turn(`!write ${LONG.replaceAll(" ", "_")}/file.rs 5`, "awaiting_approval");

await withBrowser(async (browser) => {
  for (const [width, height, scheme, locale] of SCREENS) {
    const tab = await Tab.signedIn(browser, { width, height, scheme, locale });
    const { page } = tab;
    for (const name of [...PAGES, `s/${session.id}`]) {
      await tab.go(`#/${name}`);
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      if (name === "inbox" || name.startsWith("s/")) await page.locator(".card.open").first().waitFor();
      if (name === "costs") await page.locator(".plot canvas").first().waitFor();
      if (name === "agents") await page.locator(".executor").first().waitFor();
      if (name === "settings") await page.locator("table.config").waitFor();
      const state = `${name.slice(0, 10).replace("/", "-")}-${width}-${scheme}`;
      const wide = await page.evaluate(() => [document.documentElement, document.querySelector("main")].map((one) => one.scrollWidth - one.clientWidth));
      check(wide.every((more) => more <= 0), `${state} is too wide: ${wide}`);
      await tab.verify(state);
    }
    await tab.context.close();
  }
});
