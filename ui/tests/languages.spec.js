// C++ and Rust with threads.

import { expect, follow, now, search, settled, test, unfold, variable } from "./page.js";

test("C++: an uncaught exception, objects behind a base class", async ({ page, open }) => {
  await open("shapes");
  await expect(page.locator("#stack")).toContainText("main");
  await search(page, "Circle::area", "Calls of Circle::area");
  await expect(page.locator("#calls")).toContainText("2 in all");
  await page.locator("#calls .rows .row").first().click();
  await settled(page);
  await unfold(page, "this");
  await expect(page.locator("#data")).toContainText("radius");
  await follow(page, "radius");
  await expect(page.locator("#stack .row").first()).toContainText("Circle::Circle");
});

test("Rust: threads have names, and every one its own stack", async ({ page, open }) => {
  await open("workers");
  await search(page, "deposit", "Calls of workers::deposit");
  await expect(page.locator("#calls")).toContainText("60 in all");
  await page.locator("#calls .rows .row").first().click();
  await settled(page);
  await expect(page.locator("#thread option:checked")).toContainText("worker-");
  // The code of the line is in two pieces, which is not to be seen here.
  await expect(page.locator("#source .row", { hasText: "held.balance += amount" }).locator(".count")).toHaveText("60");
  const here = await now(page);
  const others = await page.locator("#thread option").count();
  expect(others).toBeGreaterThan(1);
  await page.locator("#thread").selectOption({ index: 1 });
  await settled(page);
  const there = await now(page);
  expect(there.time).toBe(here.time);
  expect(there.thread).not.toBe(here.thread);
  await expect(page.locator("#stack .row").first()).toBeVisible();
  await expect(page.locator("#overview")).toContainText("worker-1");
});

test("Rust: a value behind a lock, to its last write", async ({ page, open }) => {
  await open("workers");
  await search(page, "goto end backward line workers.rs:14", "goto end");
  await page.locator("#watch").fill("amount");
  await page.locator("#watch").press("Enter");
  await settled(page);
  await expect(variable(page, "amount").locator(".value")).toHaveText(/\d+/);
});
