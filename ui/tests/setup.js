// Before all tests: recordings and servers. What is returned is done after them.

import { serve } from "./recordings.js";

export default async function setup() {
  const served = await serve();
  process.env.RETRO_PAGES = JSON.stringify(served.pages);
  process.env.RETRO_STORE = served.store;
  return served.stop;
}
