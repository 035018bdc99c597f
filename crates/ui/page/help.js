// @ts-check
// The overlay with all keys.

import { h, button } from "./dom.js";

/** @param {import("./keys.js").Keys} keys */
export function makeHelp(keys) {
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { id: "help", "aria-label": "Keys" }));
  const show = () => {
    const groups = [...new Set(keys.bindings.map(({ group }) => group))];
    dialog.replaceChildren(
      h("h2", {}, "Keys"),
      h(
        "div",
        { class: "key-groups" },
        groups.map((group) =>
          h(
            "div",
            {},
            h("h3", {}, group),
            h(
              "dl",
              {},
              keys.bindings
                .filter((binding) => binding.group === group)
                .flatMap(({ keys: names, what }) => [
                  h("dt", {}, names.flatMap((name, index) => [index ? " " : "", h("kbd", {}, name)])),
                  h("dd", {}, what),
                ]),
            ),
          ),
        ),
      ),
      h(
        "p",
        {},
        "In every list: arrows, Page Up and Down, Home and End move, Enter opens. Tab goes from pane to pane. ",
        "Alt+Left and Alt+Right go back and forward through the moments you have seen.",
      ),
      button("Close", "Close", () => dialog.close()),
    );
    dialog.showModal();
  };
  document.body.append(dialog);
  return show;
}
