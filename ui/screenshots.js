// Makes the screenshots of docs/ui.md from the real page, on a recording of the README's example.
//
//   npm ci && npm run screenshots

import { chromium } from "@playwright/test";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "./tests/recordings.js";
import { follow, search, settled, unfold, variable } from "./tests/page.js";

const target = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../docs/images");

const { pages, stop } = await serve(["ledger", "workers"]);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});

/** Opens a page, does something there, and takes a picture. */
async function take(name, address, scheme, work) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 860 }, colorScheme: scheme });
  await page.goto(address);
  await settled(page);
  await work(page);
  await settled(page);
  await page.screenshot({ path: path.join(target, `${name}.png`) });
  await page.close();
}

try {
  await take("ui-crash", pages.ledger, "light", async (page) => {
    await unfold(page, "account");
  });
  await take("ui-cause", pages.ledger, "light", async (page) => {
    await unfold(page, "account");
    await follow(page, "branch");
    await search(page, "set_owner", "Calls of set_owner");
  });
  await take("ui-history", pages.ledger, "dark", async (page) => {
    await unfold(page, "account");
    await variable(page, "cents").locator("button", { hasText: "hist" }).click();
  });
  await take("ui-threads", pages.workers, "light", async (page) => {
    await search(page, "deposit", "Calls of workers::deposit");
    await page.locator("#calls .rows .row").nth(5).click();
    await settled(page);
    await search(page, "deposit", "deposit in the timeline");
  });
} finally {
  await browser.close();
  stop();
}
