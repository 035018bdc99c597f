// The README's bug: from the crash to its cause by clicking values only, and what the panes say on the way.

import { expect, follow, now, search, settled, test, unfold, variable } from "./page.js";

test("opens at the crash, with every pane filled", async ({ page, open }) => {
  await open("ledger");
  await expect(page).toHaveTitle("./ledger · Retrospect");
  await expect(page.locator("#source .row.current .text")).toContainText("account->branch->deposits += account->cents");
  await expect(page.locator("#stack .row").first()).toContainText("settle(accounts=0x");
  await expect(page.locator("#stack .row").nth(1)).toContainText("main()");
  await expect(variable(page, "account").locator(".value")).toContainText("0x");
  await expect(page.locator("#timeline .row", { hasText: "SIGSEGV" })).toBeVisible();
  await expect(page.locator("#source .row", { hasText: "from->cents -= cents" }).locator(".count")).toHaveText("287k");
  expect(page.url()).not.toContain("token");
});

test("from the crash to the cause by clicking values", async ({ page, open }) => {
  await open("ledger");
  const crash = await now(page);
  await unfold(page, "account");
  await expect(variable(page, "branch").locator(".time")).toContainText(",");
  await follow(page, "branch");
  const write = await now(page);
  expect(write.time).toBeLessThan(crash.time - 100_000);
  await expect(page.locator("#stack .row.current")).toContainText("set_owner(account=0x");
  await expect(page.locator("#source .row.current .text")).toContainText("strcpy(account->owner, owner)");
  await expect(variable(page, "owner").last()).toContainText("Sofya Vasilyevna");
  await expect(page.locator("#timeline .row.write")).toContainText("account->branch =");
  await page.locator("#tab-notebook").click();
  await expect(page.locator("#notebook li", { hasText: "Last write of account->branch" })).toBeVisible();
  await page.goBack();
  await settled(page);
  expect(await now(page)).toMatchObject({ time: crash.time });
  await page.goForward();
  await settled(page);
  expect(await now(page)).toMatchObject({ time: write.time });
});

test("values that changed are marked when the moment moves", async ({ page, open }) => {
  await open("ledger");
  await unfold(page, "account");
  await follow(page, "branch");
  await expect(variable(page, "branch")).toHaveClass(/changed/);
});

test("a link opens the same view", async ({ page, open, context }) => {
  await open("ledger");
  await unfold(page, "account");
  await follow(page, "branch");
  const there = await now(page);
  const other = await context.newPage();
  const token = new URL(JSON.parse(process.env.RETRO_PAGES).ledger).hash.slice(1);
  const link = new URL(page.url());
  await other.goto(`${link.origin}/${link.hash}&${token}`);
  await settled(other);
  expect(await now(other)).toEqual(there);
  await expect(other.locator("#source .row.current .text")).toContainText("strcpy");
  await other.reload();
  await settled(other);
  expect(await now(other)).toEqual(there);
});

test("all calls of a function, filtered, sorted, with printed expressions", async ({ page, open }) => {
  await open("ledger");
  await search(page, "set_owner", "Calls of set_owner");
  await expect(page.locator("#calls")).toContainText("69 in all");
  await expect(page.locator("#calls .row.header")).toContainText("owner");
  await page.locator("#table-filter").fill('owner[0] == 83');
  await page.locator("#table-filter").press("Enter");
  await settled(page);
  await expect(page.locator("#calls .rows .row")).toHaveCount(1);
  await expect(page.locator("#calls .rows .row").first()).toContainText("Sofya");
  await page.locator("#table-filter").fill("");
  await page.locator("#table-filter").press("Enter");
  await settled(page);
  await page.locator("#calls .row.header button", { hasText: "Took" }).click();
  await settled(page);
  const took = await page.locator("#calls .rows .row .cell:last-child").allTextContents();
  const numbers = took.map((text) => Number(text.replace(/,/g, "")));
  expect(numbers).toEqual([...numbers].sort((one, other) => one - other));
});

test("a line's executions lead to their moments, with printed values", async ({ page, open }) => {
  await open("ledger");
  await page.locator("#source .row", { hasText: "from->cents -= cents" }).click();
  await settled(page);
  await expect(page.locator("#calls h2")).toHaveText("Executions of ledger.c:59");
  await page.locator("#table-print").fill("cents, from->cents");
  await page.locator("#table-print").press("Enter");
  await settled(page);
  const row = page.locator("#calls .rows .row.current");
  await expect(row.locator(".printed").first()).toHaveText(/^\d+$/);
  await row.click();
  await settled(page);
  await expect(page.locator("#source .row.current .line-number")).toHaveText("59");
  const here = await now(page);
  await page.locator("#calls button[aria-label='Previous execution']").click();
  await settled(page);
  expect((await now(page)).time).toBeLessThan(here.time);
  await expect(page.locator("#source .row.current .line-number")).toHaveText("59");
});

test("the history of a value, as a list and a plot", async ({ page, open }) => {
  await open("ledger");
  await unfold(page, "account");
  await variable(page, "cents").locator("button", { hasText: "hist" }).click();
  await settled(page);
  await expect(page.locator("#history svg polyline")).toBeVisible();
  expect(await page.locator("#history .rows .row").count()).toBeGreaterThan(3);
  const before = await now(page);
  await page.locator("#history .rows .row").first().click();
  await settled(page);
  expect((await now(page)).time).toBeLessThan(before.time);
});

test("memory, with the last write of a byte", async ({ page, open }) => {
  await open("ledger");
  await unfold(page, "account");
  await variable(page, "branch").locator("button", { hasText: "hex" }).click();
  await settled(page);
  await expect(page.locator("#memory .byte.subject")).toHaveCount(8);
  await page.locator("#memory .byte.subject").first().click();
  await settled(page);
  await expect(page.locator("#stack .row.current")).toContainText("set_owner");
});

test("steps in both directions", async ({ page, open }) => {
  await open("ledger");
  await search(page, "transfer", "Calls of transfer");
  await expect(page.locator("#calls")).toContainText("300,000 in all");
  await search(page, "set_owner", "Calls of set_owner");
  await page.locator("#calls .rows .row").nth(3).click();
  await settled(page);
  const entry = await now(page);
  const line = async () => Number(await page.locator("#source .row.current .line-number").textContent());
  const press = async (label) => {
    await page.locator(`.steps button[aria-label^='${label}']`).click();
    await settled(page);
  };
  const first = await line();
  await press("On to the next line (n)");
  expect((await now(page)).time).toBeGreaterThan(entry.time);
  expect(await line()).not.toBe(first);
  await press("On by an instruction");
  const later = await now(page);
  await press("Back by an instruction");
  expect((await now(page)).time).toBeLessThan(later.time);
  await press("On until this function returns");
  await expect(page.locator("#stack .row").first()).not.toContainText("set_owner");
  const caller = await now(page);
  await press("Back to the line before (N)");
  expect((await now(page)).time).toBeLessThan(caller.time);
});

test("the timeline has calls with bars, and groups of events", async ({ page, open }) => {
  await open("ledger");
  await search(page, "set_owner", "set_owner in the timeline");
  await expect(page.locator("#timeline .row.call").first()).toContainText("owner=");
  await expect(page.locator("#timeline .row.exit").first()).toBeVisible();
  await expect(page.locator("#timeline .lane.call").first()).toBeVisible();
  await page.locator("#show-syscalls").check();
  await settled(page);
  await page.locator("#show-output").check();
  await settled(page);
  await expect(page.locator("#timeline .row.output").first()).toContainText("All transfers are done");
});

test("the output leads to the moment it was written", async ({ page, open }) => {
  await open("ledger");
  await page.locator("#tab-output").click();
  const line = page.locator("#output .row", { hasText: "All transfers are done" });
  await line.click();
  await settled(page);
  await expect(page.locator("#stack")).toContainText("main");
  expect((await now(page)).time).toBeLessThan(await page.evaluate(() => window.retro.here.range.end));
});

test("one box for times, queries, files, expressions", async ({ page, open }) => {
  await open("ledger");
  await search(page, "50%", "Go to");
  const { time } = await now(page);
  const end = await page.evaluate(() => window.retro.here.range.end);
  expect(Math.abs(time - end / 2)).toBeLessThan(2);
  await page.locator("#search").fill("goto end backward func_enter set_owner");
  await page.locator("#search").press("Enter");
  await settled(page);
  await expect(page.locator("#stack .row").first()).toContainText("set_owner");
  await search(page, "ledger.c", "ledger.c");
  await expect(page.locator("#source h2")).toHaveText("ledger.c");
  await search(page, "random_state", "random_state =");
  await expect(variable(page, "random_state")).toBeVisible();
  await search(page, "random_state", "Last write of random_state");
  await expect(page.locator("#source .row.current .text")).toContainText("random_state");
});

test("hover shows values, the disassembly is beside the source", async ({ page, open }) => {
  await open("ledger");
  const text = page.locator("#source .row.current .text");
  const box = await text.boundingBox();
  await page.mouse.move(box.x + 80, box.y + 8);
  await expect(page.locator("#source .tip")).toContainText("account");
  await page.keyboard.press("d");
  await expect(page.locator("#disassembly .row.current .text")).toBeVisible();
});

test("the overview goes anywhere, and zooms", async ({ page, open }) => {
  await open("ledger");
  const strip = page.locator(".overview-strip");
  const box = await strip.boundingBox();
  await page.mouse.click(box.x + box.width / 4, box.y + 5);
  await settled(page);
  const end = await page.evaluate(() => window.retro.here.range.end);
  expect(Math.abs((await now(page)).time / end - 0.25)).toBeLessThan(0.01);
  await page.mouse.move(box.x + box.width * 0.2, box.y + 5);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 5, { steps: 4 });
  await page.mouse.up();
  await settled(page);
  const view = await page.evaluate(() => window.retro.overview.view);
  expect((view.to - view.from) / end).toBeLessThan(0.25);
});
