// What all tests do with the page: open it, wait until every pane shows the moment, read what it shows.

import { expect, test as base } from "@playwright/test";

export { expect };

export const test = base.extend({
  /** Opens the page of a guest. Nothing may fail on the console meanwhile. */
  open: async ({ page }, use) => {
    const failures = [];
    page.on("pageerror", (error) => failures.push(String(error)));
    page.on("console", (message) => message.type() === "error" && failures.push(message.text()));
    await use(async (name, hash = "") => {
      const address = JSON.parse(process.env.RETRO_PAGES)[name];
      await page.goto(address + hash);
      await settled(page);
    });
    expect(failures).toEqual([]);
  },
});

/** Until no pane waits for an answer. */
export async function settled(page) {
  await expect(page.locator("#stack .row").first()).toBeVisible();
  await page.waitForFunction(() => window.retro.api.pending.size === 0 && !document.querySelector("[aria-busy]"));
  // Some panes ask again when the first answers are there.
  await page.waitForTimeout(60);
  await page.waitForFunction(() => window.retro.api.pending.size === 0 && !document.querySelector("[aria-busy]"));
}

export const now = (page) => page.evaluate(() => ({ ...window.retro.here.now }));

/** A row of the data pane by the name of the variable. */
export const variable = (page, name) =>
  page.locator("#data .row").filter({ has: page.locator(".name", { hasText: new RegExp(`^${name.replace(/[*[\]]/g, "\\$&")}$`) }) }).first();

export async function unfold(page, name) {
  await variable(page, name).locator("button.toggle").click();
  await settled(page);
}

export async function follow(page, name) {
  await variable(page, name).locator(".value-button").click();
  await settled(page);
}

export async function search(page, text, choice) {
  await page.locator("#search").fill(text);
  await page.locator(".choice", { hasText: choice }).first().click();
  await settled(page);
}
