//! The web page of the debugger, as part of the program.
//!
//! The page is plain JavaScript, CSS and HTML in `page/`, as it is: nothing is built, nothing is loaded from elsewhere, and a server gives
//! exactly these files. What the page asks is the API of `docs/protocol.md`, over a WebSocket; it has no other way to the recording.
//!
//! Invariants: what a guest, a file or a user wrote reaches the page as text only (`page/dom.js` is the one place that creates elements);
//! the page keeps no state that is not in its address, in the notebook or, for sizes and colours, in the browser.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use retro_server::StaticFile;

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// A file of `page/` under its own name.
macro_rules! file {
    ($content_type:expr, $name:literal) => {
        StaticFile {
            path: concat!("/", $name),
            content_type: $content_type,
            bytes: include_bytes!(concat!("../page/", $name)),
        }
    };
}

/// All files of the page.
pub const FILES: &[StaticFile] = &[
    StaticFile { path: "/", content_type: HTML, bytes: include_bytes!("../page/index.html") },
    file!(IMAGE, "favicon.svg"),
    file!(STYLE, "theme.css"),
    file!(STYLE, "layout.css"),
    file!(STYLE, "panes.css"),
    file!(SCRIPT, "main.js"),
    file!(SCRIPT, "api.js"),
    file!(SCRIPT, "dom.js"),
    file!(SCRIPT, "executions.js"),
    file!(SCRIPT, "expressions.js"),
    file!(SCRIPT, "follow.js"),
    file!(SCRIPT, "format.js"),
    file!(SCRIPT, "help.js"),
    file!(SCRIPT, "keys.js"),
    file!(SCRIPT, "layout.js"),
    file!(SCRIPT, "moment.js"),
    file!(SCRIPT, "pane.js"),
    file!(SCRIPT, "search.js"),
    file!(SCRIPT, "sources.js"),
    file!(SCRIPT, "theme.js"),
    file!(SCRIPT, "virtual-list.js"),
    file!(SCRIPT, "panes/data.js"),
    file!(SCRIPT, "panes/disassembly.js"),
    file!(SCRIPT, "panes/history.js"),
    file!(SCRIPT, "panes/memory.js"),
    file!(SCRIPT, "panes/notebook.js"),
    file!(SCRIPT, "panes/output.js"),
    file!(SCRIPT, "panes/overview.js"),
    file!(SCRIPT, "panes/source.js"),
    file!(SCRIPT, "panes/stack.js"),
    file!(SCRIPT, "panes/table.js"),
    file!(SCRIPT, "panes/timeline.js"),
    file!(SCRIPT, "panes/values.js"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The paths of all files below a directory.
    fn below(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                below(&entry.path(), &path, found);
            } else {
                found.insert(path);
            }
        }
    }

    fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
        let scripts = FILES.iter().filter(|file| file.content_type == SCRIPT);
        scripts.map(|file| (file.path, std::str::from_utf8(file.bytes).unwrap()))
    }

    #[test]
    fn every_file_of_the_page_is_served_and_no_other() {
        let mut there = BTreeSet::new();
        below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("page"), "", &mut there);
        there.remove("/index.html");
        there.insert("/".to_owned());
        let served: BTreeSet<String> = FILES.iter().map(|file| file.path.to_owned()).collect();
        assert_eq!(served.len(), FILES.len());
        assert_eq!(served, there);
    }

    #[test]
    fn every_import_leads_to_a_file() {
        for (path, text) in scripts() {
            let directory = &path[..path.rfind('/').unwrap()];
            for line in text
                .lines()
                .filter(|line| line.starts_with("import ") || line.starts_with("} from "))
            {
                let name = line.split('"').nth(1).unwrap_or_else(|| panic!("{path}: {line}"));
                let target = match name.strip_prefix("../") {
                    Some(rest) => format!("/{rest}"),
                    None => format!("{directory}/{}", name.trim_start_matches("./")),
                };
                assert!(FILES.iter().any(|file| file.path == target), "{path} imports {name}");
            }
        }
    }

    #[test]
    fn nothing_becomes_markup() {
        let forbidden = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "setHTML",
            "srcdoc",
        ];
        for (path, text) in scripts() {
            for word in forbidden {
                assert!(!text.contains(word), "{path} has {word}");
            }
            let creates = text.contains("createElement");
            assert!(!creates || path == "/dom.js", "{path} creates elements by itself");
        }
    }

    #[test]
    fn files_are_short_and_say_what_they_are_for() {
        for (path, text) in scripts() {
            assert!(text.starts_with("// @ts-check\n// "), "{path}");
            assert!(text.lines().count() <= 500, "{path} is too long");
        }
    }
}
