// SQLite itself, from its source: a crash in its code that a function of the program has caused, and where the text came from that
// was too long. A quarter of a million lines are one file here.

import { expect, follow, now, search, settled, test, unfold, variable } from "./page.js";

test("from a crash in SQLite to the cause, and on through its code, by clicking values", async ({ page, open }) => {
  await open("shop");
  await expect(page.locator("#stack .row").first()).toContainText("sqlite3SafetyCheckOk(db=0x");
  await expect(page.locator("#source h2")).toHaveText("sqlite3.c");
  await expect(page.locator("#source .row.current .text")).toContainText("eOpenState");
  // The database is nonsense. Whose is it?
  await page.locator("#stack .row", { hasText: "orders_left" }).click();
  await settled(page);
  await expect(page.locator("#source h2")).toHaveText("shop.c");
  await unfold(page, "printer");
  const crash = await now(page);
  await follow(page, "orders");
  expect((await now(page)).time).toBeLessThan(crash.time);
  await expect(page.locator("#stack .row.current")).toContainText("print_label");
  await expect(page.locator("#source .row.current .text")).toContainText("strcpy(printer->label, text)");
  await expect(page.locator("#stack")).toContainText("sqlite3VdbeExec");
  await expect(variable(page, "text")).toContainText("Sofya Vasilyevna Kovalevskaya");
  // What is in the text was put together by SQLite.
  await unfold(page, "text");
  await follow(page, "*");
  await expect(page.locator("#source h2")).toHaveText("sqlite3.c");
  await expect(page.locator("#stack .row.current")).toContainText("sqlite3VdbeExec");
  await expect(page.locator("#source .row.current .text")).toContainText("memcpy");
  await expect(variable(page, "pIn1")).toBeVisible();
});

test("the globals of the file, and types by parts of their names", async ({ page, open }) => {
  await open("shop");
  const globals = page.locator("#data .row.section button", { hasText: "Globals" });
  await globals.click();
  await settled(page);
  const shown = page.locator("#data .row .name");
  await expect(page.locator("#data")).toContainText("Globals of this file");
  await page.locator("#data .virtual-list").evaluate((list) => (list.scrollTop = list.scrollHeight));
  await expect(page.locator("#data .row.section button", { hasText: "More globals" })).toBeVisible();
  expect(await shown.count()).toBeGreaterThan(3);
  await page.locator("#search").fill("btshar");
  await expect(page.locator(".choice", { hasText: "BtShared" })).toContainText("bytes");
  await search(page, "BtShared", "BtShared");
  await expect(page.locator("#data .virtual-list")).toContainText("sizeof(BtShared)");
});

test("a large file is read where it is looked at", async ({ page, open }) => {
  await open("shop");
  const lines = page.locator("#source .virtual-list");
  await lines.focus();
  await page.keyboard.press("End");
  await settled(page);
  await expect(page.locator("#source .rows .row").last().locator(".text")).not.toHaveText("…");
  await page.keyboard.press("Home");
  await settled(page);
  await expect(page.locator("#source .row .text", { hasText: "amalgamation" }).first()).toBeVisible();
});
