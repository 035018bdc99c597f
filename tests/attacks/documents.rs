//! docs/security.md is true as far as a program can tell: every promise names tests, and there are such tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where tests are that are named without a directory.
const SUITE: &str = "tests/attacks";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/security.md")).unwrap()
}

/// Tests as the document names them, `FILE::TEST` between backticks: files from the root of the repository.
fn named(document: &str) -> Vec<(String, String)> {
    let code = document.split('`').skip(1).step_by(2);
    let tests =
        code.filter_map(|text| text.split_once("::")).filter(|(file, _)| file.contains('.'));
    let from_root = |file: &str| match file.contains('/') {
        true => file.to_owned(),
        false => format!("{SUITE}/{file}"),
    };
    tests.map(|(file, test)| (from_root(file), test.to_owned())).collect()
}

/// The tests of this suite, as they would be run: `MODULE::TEST`.
fn suite() -> BTreeSet<String> {
    let output =
        Command::new(std::env::current_exe().unwrap()).args(["--list", "--format=terse"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Whether a file has a test, by what is written in it.
fn has_test(file: &str, test: &str) -> bool {
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    if file.ends_with(".js") {
        return text.contains(&format!("test(\"{test}\""));
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.windows(2).any(|two| two[0] == "#[test]" && two[1].starts_with(&format!("fn {test}(")))
}

#[test]
fn every_test_that_the_document_names_exists() {
    let suite = suite();
    assert!(suite.len() > 60, "only {} tests: {suite:?}", suite.len());
    let named = named(&document());
    assert!(named.len() > 60, "only {} names", named.len());
    let is_there = |file: &str, test: &str| match file.strip_prefix(SUITE) {
        Some(name) => {
            let module = name.trim_start_matches('/').trim_end_matches(".rs");
            suite.contains(&format!("{module}::{test}"))
        }
        None => has_test(file, test),
    };
    let missing: Vec<_> = named.iter().filter(|(file, test)| !is_there(file, test)).collect();
    assert!(missing.is_empty(), "docs/security.md names tests that do not exist: {missing:#?}");
    assert!(!is_there("tests/replay/hostile.rs", "no_such_test"));
    assert!(!is_there("tests/attacks/links.rs", "no_such_test"));
}

/// A promise without a test is none: every row of the tables names one.
#[test]
fn every_promise_has_a_test() {
    let document = document();
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let promises: Vec<&str> =
        rows.filter(|row| !row.starts_with("| ---") && !row.starts_with("| Promise ")).collect();
    assert!(promises.len() > 20, "only {} promises", promises.len());
    for promise in promises {
        assert!(!named(promise).is_empty(), "no test holds: {promise}");
    }
}

/// Every file of attacks holds a promise.
#[test]
fn every_part_of_the_suite_is_named() {
    let named: BTreeSet<String> = named(&document()).into_iter().map(|(file, _)| file).collect();
    for test in suite() {
        let Some((module, _)) = test.split_once("::") else { panic!("{test}") };
        let file = format!("{SUITE}/{module}.rs");
        assert!(module == "documents" || named.contains(&file), "nothing names {file}");
    }
}
