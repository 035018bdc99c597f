// A million rows, and how long a click takes.

import { expect, search, settled, test } from "./page.js";

test("a table of a million calls scrolls smoothly", async ({ page, open }) => {
  await open("many");
  await search(page, "bump", "Calls of bump");
  await expect(page.locator("#calls")).toContainText("1,000,000 in all");
  const list = page.locator("#calls .virtual-list");
  const frames = await list.evaluate(async (element) => {
    const times = [];
    let last = performance.now();
    for (let step = 0; step < 60; step++) {
      element.scrollTop = (step / 60) * element.scrollHeight;
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    return times.sort((one, other) => one - other);
  });
  expect(frames[30]).toBeLessThan(40);
  expect(await page.locator("#calls .rows .row").count()).toBeLessThan(80);
  await list.focus();
  await page.keyboard.press("End");
  await settled(page);
  const last = page.locator("#calls .rows .row").last();
  await expect(last).toContainText("1,000,000");
  await expect(last).toContainText("999999");
  await list.evaluate((element) => (element.scrollTop = element.scrollHeight / 2));
  await settled(page);
  await expect(page.locator("#calls .rows .row").nth(8)).toContainText(/[45]\d\d,\d\d\d/);
  await expect(page.locator("#calls .rows .row").nth(8)).not.toContainText("…");
});

test("sorting says how far it is, and can be cancelled", async ({ page, open }) => {
  await open("many");
  await search(page, "bump", "Calls of bump");
  await page.locator("#calls .row.header button", { hasText: "Took" }).click();
  await expect(page.locator("#calls .spinner .progress")).toHaveText(/^[\d,]+ of 50,000 rows$/);
  await page.locator("#calls .spinner button").click();
  await settled(page);
  await expect(page.locator("#calls .pane-status")).toHaveText("Cancelled.");
  await expect(page.locator("#calls .pane-tools")).not.toContainText("sorted");
  // Executions without arguments and results are quick.
  await page.locator("#calls .rows .row").nth(8).click();
  await settled(page);
  await page.locator("#source .row", { hasText: "sum += number" }).click();
  await settled(page);
  await page.locator("#calls .row.header button", { hasText: "#" }).click();
  await expect(page.locator("#calls .pane-tools")).toContainText("the first 50,000 are sorted", { timeout: 30_000 });
  await expect(page.locator("#calls .rows .row").first()).toContainText("50,000");
});

test("a click fills all panes at once", async ({ page, open }) => {
  await open("ledger");
  const times = await page.evaluate(async () => {
    const { here, api } = window.retro;
    const times = [];
    for (let step = 1; step <= 15; step++) {
      const start = performance.now();
      here.go({ time: Math.floor((here.range.end * step) / 16) });
      do await new Promise((done) => setTimeout(done, 2));
      while (api.pending.size || document.querySelector("[aria-busy]"));
      times.push(performance.now() - start);
    }
    return times.sort((one, other) => one - other);
  });
  console.log(`a click: median ${times[7].toFixed(0)} ms, longest ${times[14].toFixed(0)} ms`);
  expect(times[7]).toBeLessThan(500);
});
