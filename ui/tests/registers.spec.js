// Values in registers: they have no memory to which something was written.

import { expect, follow, now, search, settled, test, variable } from "./page.js";

test("a pointer that a loop moves on, to the instruction that did", async ({ page, open }) => {
  await open("ledger");
  const crash = await now(page);
  await expect(variable(page, "account")).toHaveAttribute("title", /in a register/);
  await follow(page, "account");
  const there = await now(page);
  expect(there.time).toBeLessThan(crash.time);
  expect(there.time).toBeGreaterThan(crash.time - 100);
  await expect(page.locator("#source .row.current .text")).toContainText("account++");
  // In front of the instruction it is still the account before.
  await expect(variable(page, "account")).toHaveClass(/changed/);
});

test("an argument that stays in its register, to the call", async ({ page, open }) => {
  await open("many");
  await search(page, "bump", "Calls of bump");
  await page.locator("#calls .rows .row").nth(8).click();
  await settled(page);
  await expect(page.locator("#stack .row").first()).toContainText("bump");
  await follow(page, "number");
  await expect(page.locator("#stack .row").first()).toContainText("main");
});
