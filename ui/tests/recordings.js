// Builds the guests, records them and serves them: real recordings, by the command that users run. Everything is in one temporary directory,
// and ends with the tests.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");

/**
 * The command under test.
 * @param {...string} profiles
 */
export function retroPath(...profiles) {
  if (process.env.RETRO) return process.env.RETRO;
  const target = process.env.CARGO_TARGET_DIR ?? path.join(root, "target");
  const built = (profiles.length ? profiles : ["debug", "release"]).map((profile) => path.join(target, profile, "retro")).filter((file) => fs.existsSync(file));
  if (!built.length) throw new Error("build retro first: cargo build");
  return built[0];
}

/** A name for a source file that a page must not take for markup. */
const HOSTILE_NAME = "<img src=x onerror=window.hacked=1>.c";

const GUESTS = {
  ledger: (directory) => ["cc", ["-g", "-O1", "-o", path.join(directory, "ledger"), path.join(root, "examples/ledger.c")]],
  shapes: (directory) => ["g++", ["-g", "-O0", "-o", path.join(directory, "shapes"), path.join(root, "ui/tests/guests/shapes.cpp")]],
  workers: (directory) => ["rustc", ["-g", "-C", "opt-level=0", "-o", path.join(directory, "workers"), path.join(root, "ui/tests/guests/workers.rs")]],
  many: (directory) => ["cc", ["-g", "-O1", "-o", path.join(directory, "many"), path.join(root, "ui/tests/guests/many.c")]],
  shop: (directory) => {
    execFileSync(path.join(root, "tests/sqlite/build.sh"), [directory, "-O0"], { stdio: "inherit" });
    return ["cc", ["-g", "-O0", `-I${directory}`, "-o", path.join(directory, "shop"), path.join(root, "ui/tests/guests/shop.c"), path.join(directory, "sqlite3.o"), "-lm"]];
  },
  hostile: (directory) => {
    const source = path.join(directory, HOSTILE_NAME);
    fs.copyFileSync(path.join(root, "ui/tests/guests/hostile.c"), source);
    return ["cc", ["-g", "-O0", "-pthread", "-o", path.join(directory, "hostile"), source]];
  },
  // Debug information can call things by names that no compiler takes.
  names: (directory) => {
    const assembly = path.join(directory, "names.s");
    execFileSync("cc", ["-g", "-O0", "-S", "-o", assembly, path.join(root, "ui/tests/guests/names.c")]);
    const hostile = fs.readFileSync(assembly, "utf8").replace(/\.string\t"evil_(\w+)"/g, '.string\t"<img src=x onerror=window.hacked=1>$1"');
    fs.writeFileSync(assembly, hostile);
    return ["cc", ["-g", "-o", path.join(directory, "names"), assembly]];
  },
};

/** What somebody has noted who sent a recording. */
const HOSTILE_NOTES = {
  revision: 1,
  notes: ["<img src=x onerror=window.hacked=1>", "</script><script>window.hacked=1</script>", "javascript:window.hacked=1"].map((text) => ({
    process: 0,
    time: 0,
    title: text,
    place: text,
    text,
    is_kept: true,
  })),
};

/**
 * Records guests and starts a server for each.
 * @param {string[]} names
 */
export async function serve(names = Object.keys(GUESTS)) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "retro-ui-tests-"));
  const environment = { ...process.env, RETRO_DIR: path.join(directory, "recordings") };
  const retro = retroPath();
  const servers = [];
  /** @type {Record<string, string>} */
  const pages = {};
  for (const name of names) {
    const [compiler, options] = GUESTS[name](directory);
    execFileSync(compiler, options, { cwd: directory, stdio: "inherit" });
    // Some are meant to crash: what counts is the recording.
    spawnSync(retro, ["record", "--quiet", "--name", name, "--", `./${name}`], { cwd: directory, env: environment, stdio: "ignore" });
    const recording = fs.readdirSync(environment.RETRO_DIR).find((entry) => entry.startsWith(`${name}-`));
    if (name === "names") fs.writeFileSync(path.join(environment.RETRO_DIR, recording, "notebook.json"), JSON.stringify(HOSTILE_NOTES));
    const server = await serveRecording(retro, recording, { cwd: directory, env: environment });
    servers.push(server);
    pages[name] = server.page;
  }
  const stop = () => {
    for (const server of servers) server.stop();
    fs.rmSync(directory, { recursive: true, force: true });
  };
  return { pages, stop, directory, store: environment.RETRO_DIR };
}

/**
 * Serves a recording.
 * @param {string} retro
 * @param {string} recording
 * @param {object} [options] where, and in which environment
 * @returns {Promise<{page: string, stop: () => void}>}
 */
export async function serveRecording(retro, recording, options = {}) {
  const server = spawn(retro, ["ui", "--no-browser", recording], { ...options, stdio: ["ignore", "pipe", "inherit"] });
  const page = await new Promise((resolve, reject) => {
    let text = "";
    server.stdout.on("data", (data) => {
      text += data;
      const found = /^page: (\S+)$/m.exec(text);
      if (found) resolve(found[1]);
    });
    server.on("exit", () => reject(new Error(`retro ui ${recording} ended: ${text}`)));
  });
  return { page, stop: () => server.kill("SIGTERM") };
}
