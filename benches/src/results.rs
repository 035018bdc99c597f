//! Rewrites the measured section of RESULTS.md and leaves the rest of the document alone.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::report::Report;
use crate::table;

const BEGIN: &str = "<!-- measured: begin (rewritten by retro-bench --update-results) -->";
const END: &str = "<!-- measured: end -->";

/// Whether [`update`] would find its section in the file.
pub fn check(path: &Path) -> Result<()> {
    read(path)
        .and_then(|document| replace_section(&document, "").with_context(|| missing_markers(path)))
        .map(drop)
}

/// Replaces the section with the report.
pub fn update(path: &Path, report: &Report) -> Result<()> {
    let document = read(path)?;
    let updated =
        replace_section(&document, &section(report)).with_context(|| missing_markers(path))?;
    fs::write(path, updated).with_context(|| format!("writing {}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| {
        format!("reading {} (run from the workspace's root, or name the file)", path.display())
    })
}

fn missing_markers(path: &Path) -> String {
    format!("{} lacks the lines `{BEGIN}` and `{END}`", path.display())
}

/// How it was measured, then the tables.
fn section(report: &Report) -> String {
    format!(
        "Command: `{}`  \nMachine: {}\n\n{}",
        report.command_line,
        report.machine,
        table::render(report)
    )
}

/// The document with the text between the markers replaced; nothing if they are not both there.
fn replace_section(document: &str, section: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n{END}{after}", section.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn only_the_section_changes() {
        let document = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nrest\n");
        let updated = replace_section(&document, "new\n").expect("has markers");
        assert_eq!(updated, format!("# Title\n\n{BEGIN}\nnew\n{END}\n\nrest\n"));
        assert_eq!(replace_section(&updated, "new\n"), Some(updated.clone()));
    }

    #[test]
    fn markers_must_be_there_in_order() {
        assert_eq!(replace_section("no markers", "new"), None);
        assert_eq!(replace_section(&format!("{BEGIN}\n"), "new"), None);
        assert_eq!(replace_section(&format!("{END}\n{BEGIN}\n"), "new"), None);
    }

    #[test]
    fn the_section_says_how_it_was_measured() {
        let section = section(&report(&[("gzip", &[100.0, 110.0, 150.0, 200.0])]));
        assert!(section.starts_with(
            "Command: `retro-bench --runs 3`  \nMachine: Test CPU, 2 cores, Linux 6.1\n\n"
        ));
    }

    #[test]
    fn this_document_has_its_markers() {
        assert!(replace_section(include_str!("../RESULTS.md"), "").is_some());
    }
}
