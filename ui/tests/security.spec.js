// The token, the origin, what is served, and names that want to be markup.

import { request } from "@playwright/test";
import { expect, search, settled, test, unfold, variable } from "./page.js";

test("nothing of a guest becomes markup", async ({ page, open }) => {
  await open("hostile");
  await expect(page.locator("#source h2")).toHaveText("<img src=x onerror=window.hacked=1>.c");
  await search(page, "look", "Calls of look");
  await expect(page.locator("#calls .rows .row").first()).toContainText("<img src=x onerror=");
  await page.locator("#calls .rows .row").first().click();
  await settled(page);
  await page.keyboard.press("n");
  await settled(page);
  await expect(variable(page, "text")).toContainText("<img src=x");
  await unfold(page, "text");
  await page.locator("#watch").fill("message");
  await page.locator("#watch").press("Enter");
  await settled(page);
  await variable(page, "message").locator("button", { hasText: "hist" }).click();
  await variable(page, "message").locator("button", { hasText: "hex" }).click();
  await settled(page);
  await page.locator("#tab-output").click();
  await settled(page);
  await page.locator("#output .row", { hasText: "<img" }).first().click();
  await settled(page);
  await page.locator("#search").fill("<img src=x onerror=window.hacked=1>");
  await settled(page);
  await page.locator("#search").press("Escape");
  await page.keyboard.press("m");
  await settled(page);
  await expect(page.locator("#thread option").first()).toContainText("<img src=x>");
  await expect(page.locator(".overview-labels span").first()).toHaveText("<img src=x>");
  await expect(page.locator(".overview-labels span").nth(1)).toHaveText("<b onload=x>");
  await expect(page.locator(".overview-labels span").nth(1)).toHaveAttribute("title", /<b onload=x>/);
  await page.locator("#tab-output").click();
  const escapes = page.locator("#output .row", { hasText: "javascript:alert" });
  await expect(escapes).toContainText("<b>title</b>");
  expect(await escapes.locator("a").count()).toBe(0);
  for (const group of ["output", "threads", "syscalls", "signals"]) await page.locator(`#show-${group}`).check();
  await settled(page);
  await expect(page.locator("#timeline .row.output", { hasText: "javascript:alert" })).toBeVisible();
  expect(await page.evaluate(() => window.hacked)).toBeUndefined();
  expect(await page.locator("img, script:not([src='/main.js']), svg[onload], b").count()).toBe(0);
});

test("names of types, members, functions and notes become no markup", async ({ page, open }) => {
  await open("names");
  const markup = "<img src=x onerror=window.hacked=1>";
  await expect(page.locator("#stack")).toContainText(`${markup}function`);
  await page.locator("#stack .row", { hasText: `${markup}function` }).first().click();
  await settled(page);
  await expect(page.locator("#data")).toContainText(`${markup}parameter`);
  await expect(page.locator("#data")).toContainText(`${markup}local`);
  await unfold(page, "plain");
  await expect(page.locator("#data")).toContainText(`${markup}member`);
  await page.locator("#watch").fill("main");
  await page.locator("#watch").press("Enter");
  await settled(page);
  await page.locator("#search").fill("<img");
  await settled(page);
  await page.locator("#search").press("Escape");
  await page.locator("#tab-notebook").click();
  await settled(page);
  await expect(page.locator("#notebook")).toContainText("</script><script>window.hacked=1</script>");
  expect(await page.locator("#notebook a[href^='javascript']").count()).toBe(0);
  expect(await page.evaluate(() => window.hacked)).toBeUndefined();
  expect(await page.locator("img, script:not([src='/main.js'])").count()).toBe(0);
});

test("no answer without the token, none to other origins, and nothing else is served", async ({ page }) => {
  const address = new URL(JSON.parse(process.env.RETRO_PAGES).ledger);
  await page.goto(address.origin);
  await expect(page.locator("#notice")).toContainText("token");
  const client = await request.newContext({ baseURL: address.origin });
  const ask = (headers) => client.post("/rpc", { headers: { "content-type": "application/json", ...headers }, data: { jsonrpc: "2.0", id: 1, method: "run.info" } });
  expect((await ask({})).status()).toBe(401);
  const token = new URLSearchParams(address.hash.slice(1)).get("token");
  expect((await ask({ authorization: `Bearer ${token}` })).status()).toBe(200);
  expect((await ask({ authorization: `Bearer ${token}`, origin: "http://evil.example" })).status()).toBe(403);
  expect((await client.get("/", { headers: { host: "evil.example" } })).status()).toBe(403);
  const index = await client.get("/");
  expect(index.headers()["content-security-policy"]).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
  expect(index.headers()["content-security-policy"]).toContain("require-trusted-types-for 'script'");
  const tag = index.headers().etag;
  expect((await client.get("/", { headers: { "if-none-match": tag } })).status()).toBe(304);
  for (const path of ["/index.html", "/../Cargo.toml", "/etc/passwd", "/notebook.json", "/main.js/", "/panes/"]) {
    expect((await client.get(path)).status(), path).toBe(404);
  }
});
