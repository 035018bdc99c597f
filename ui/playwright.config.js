import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "tests",
  globalSetup: "./tests/setup.js",
  workers: 2,
  // A machine may be busy: what must be fast is measured where it is tested.
  timeout: 60_000,
  expect: { timeout: 10_000 },
  reporter: [["list"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1500, height: 950 },
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      // Root has no sandbox for its browser; everybody else has.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    },
  },
});
