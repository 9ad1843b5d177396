// A page on another port of this machine, which agents start all day, can neither read, nor send, nor
// frame anything.

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { Tab, check, equal, need, withBrowser } from "./browser.mjs";

const address = fs.readFileSync(path.join(need("ANGELIA_HOME"), "run/http.addr"), "utf8").trim();

const foreign = http.createServer((_, response) => {
  response.writeHead(200, { "Content-Type": "text/html" });
  response.end(`<!doctype html><title>foreign</title><iframe id="frame" src="http://${address}/"></iframe>`);
});
await new Promise((resolve) => foreign.listen(0, "127.0.0.1", resolve));

try {
  await withBrowser(async (browser) => {
    const signedIn = await Tab.signedIn(browser);
    const token = await signedIn.page.evaluate(() => localStorage.getItem("angelia.token"));
    check(token?.length === 64, "there is a token");
    equal(await signedIn.context.cookies(), [], "there is no cookie");

    const page = await signedIn.context.newPage();
    await page.goto(`http://127.0.0.1:${foreign.address().port}/`);
    equal(await page.evaluate(() => localStorage.length), 0, "the storage of another port is another storage");
    const attempt = (init, target = "/api/status") => page.evaluate(([to, options]) => fetch(to, options).then((r) => `read ${r.status}`, () => "refused"), [`http://${address}${target}`, init]);
    equal(await attempt({}), "refused");
    equal(await attempt({ credentials: "include" }), "refused");
    // Even with the token, which it cannot have.
    equal(await attempt({ headers: { Authorization: `Bearer ${token}` } }), "refused");
    equal(await attempt({ method: "POST", body: "{}", mode: "no-cors" }, "/api/sessions"), "read 0");
    equal(await attempt({}, "/"), "refused", "also the page itself");
    const sessions = await signedIn.page.evaluate((bearer) => fetch("/api/sessions", { headers: { Authorization: `Bearer ${bearer}` } }).then((r) => r.json()), token);
    equal(sessions.data, [], "nothing was created");
    const framed = await page.evaluate(() => {
      try {
        return document.getElementById("frame").contentDocument?.title ?? "closed";
      } catch {
        return "closed";
      }
    });
    equal(framed, "closed");
    const inside = page.frames().find((frame) => frame.url().includes(address));
    check(!inside || !(await inside.locator(".login, .rail").count()), "the page is not shown in a frame");
    await signedIn.verify("own page");
  });
} finally {
  foreign.close();
}
