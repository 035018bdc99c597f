// Everything by keyboard alone, labels for screen readers, and what axe has to say.

import AxeBuilder from "@axe-core/playwright";
import { expect, now, settled, test } from "./page.js";

test("from the crash to the cause without a mouse", async ({ page, open }) => {
  await open("ledger");
  const press = async (...keys) => {
    for (const key of keys) {
      await page.keyboard.press(key);
      await settled(page);
    }
  };
  const crash = await now(page);
  await press("4", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown");
  const active = await page.locator("#data .virtual-list").getAttribute("aria-activedescendant");
  await expect(page.locator(`#${active}`)).toContainText("branch");
  await press("Enter");
  await expect(page.locator("#source .row.current .text")).toContainText("strcpy");
  await press("[");
  expect((await now(page)).time).toBe(crash.time);
  await press("]", "$", "N");
  expect((await now(page)).time).toBeLessThan(crash.time);
  await press("k");
  expect((await now(page)).frame).toBe(1);
  await press("/");
  await page.keyboard.type("set_owner");
  await expect(page.locator(".choice").first()).toBeVisible();
  await expect(page.locator(".choice[aria-selected=true]")).toContainText("set_owner");
  await press("Enter");
  await expect(page.locator("#calls, #data").first()).toBeVisible();
  await press("m");
  await page.keyboard.type("here it was");
  await expect(page.locator("#notebook .pane-tools")).toContainText("Saved");
});

test("the help lists the keys", async ({ page, open }) => {
  await open("ledger");
  await page.keyboard.press("?");
  await expect(page.locator("#help")).toBeVisible();
  await expect(page.locator("#help")).toContainText("previous line");
  await page.keyboard.press("Escape");
  await expect(page.locator("#help")).toBeHidden();
});

test("borders between panes move by keyboard", async ({ page, open }) => {
  await open("ledger");
  const width = () => page.locator("#timeline").evaluate((pane) => pane.clientWidth);
  const before = await width();
  await page.locator("[role=separator][aria-label*='Timeline and Source']").focus();
  await page.keyboard.press("ArrowRight");
  expect(await width()).toBeGreaterThan(before);
});

for (const scheme of /** @type {const} */ (["light", "dark"])) {
  test(`axe finds nothing, ${scheme}`, async ({ page, open }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await open("ledger");
    const check = async (builder) => {
      const { violations } = await builder.analyze();
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(" ")).slice(0, 3)}`)).toEqual([]);
    };
    await page.locator("#show-output").check();
    await settled(page);
    await check(new AxeBuilder({ page }));
    await page.keyboard.press("m");
    for (const tab of ["output", "history", "memory", "notebook"]) {
      await page.locator(`#tab-${tab}`).click();
      await settled(page);
      await check(new AxeBuilder({ page }).include(`#${tab}`));
    }
  });
}

test("light and dark can be chosen", async ({ page, open }) => {
  await page.emulateMedia({ colorScheme: "light" });
  await open("ledger");
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await page.keyboard.press("t");
  expect(await back()).not.toBe(light);
  await page.reload();
  await settled(page);
  expect(await back()).not.toBe(light);
});
