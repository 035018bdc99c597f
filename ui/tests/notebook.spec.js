// The notebook is kept beside the recording, and nothing of the recording changes.

import fs from "node:fs";
import path from "node:path";
import { expect, settled, test } from "./page.js";

test("notes are saved beside the recording and exported", async ({ page, open }) => {
  await open("shapes");
  const store = process.env.RETRO_STORE;
  const directory = path.join(store, fs.readdirSync(store).find((name) => name.startsWith("shapes-")));
  const log = fs.readFileSync(path.join(directory, "log"));
  await page.keyboard.press("m");
  await page.locator("#notebook textarea").last().fill("the exception *leaves* main");
  await expect(page.locator("#notebook .pane-tools")).toContainText("Saved");
  const saved = JSON.parse(fs.readFileSync(path.join(directory, "notebook.json"), "utf8"));
  expect(saved.notes.at(-1).text).toBe("the exception *leaves* main");
  expect(fs.statSync(path.join(directory, "notebook.json")).mode & 0o777).toBe(0o600);
  expect(fs.readFileSync(path.join(directory, "log")).equals(log)).toBe(true);
  const download = page.waitForEvent("download");
  await page.locator("#notebook button", { hasText: "Markdown" }).click();
  const text = fs.readFileSync(await (await download).path(), "utf8");
  expect(text).toContain("# ./shapes");
  expect(text).toContain("the exception \\*leaves\\* main");
  await page.reload();
  await settled(page);
  await page.locator("#tab-notebook").click();
  await expect(page.locator("#notebook textarea").last()).toHaveValue("the exception *leaves* main");
});
