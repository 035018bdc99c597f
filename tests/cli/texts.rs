//! What `retro` says about itself.

use retro_testkit::compare::Ending;

use crate::{retro, text};

#[test]
fn help_has_examples() {
    for (arguments, example) in [
        (&["--help"][..], "retro record -- "),
        (&["run", "--help"], "retro run -- ls"),
        (&["help", "run"], "retro run -- ls"),
        (&["record", "--help"], "retro record -- "),
        (&["ls", "--help"], "retro ls"),
        (&["info", "--help"], "retro info"),
        (&["rm", "--help"], "retro rm "),
        (&["dump", "--help"], "retro dump | less"),
        (&["pack", "--help"], "retro pack"),
        (&["unpack", "--help"], "retro unpack "),
        (&["import", "--help"], "retro import "),
    ] {
        let outcome = retro(arguments);
        assert_eq!(outcome.status, Ending::Exited(0));
        let stdout = text(&outcome.stdout);
        assert!(stdout.contains(&format!("Examples:\n  {example}")), "{stdout}");
        assert!(outcome.stderr.is_empty());
    }
}

#[test]
fn version_is_the_package_s() {
    let outcome = retro(["--version"]);
    assert_eq!(text(&outcome.stdout), format!("retro {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_and_manual_mention_every_option() {
    for arguments in
        [&["completions", "bash"][..], &["completions", "zsh"], &["completions", "fish"], &["man"]]
    {
        let outcome = retro(arguments);
        assert_eq!(outcome.status, Ending::Exited(0));
        // In roff a hyphen is escaped.
        let stdout = text(&outcome.stdout).replace('\\', "");
        for word in [
            "run",
            "stats",
            "record",
            "chaos",
            "ls",
            "json",
            "index",
            "info",
            "check",
            "rm",
            "force",
            "dump",
            "kind",
            "thread-switch",
            "pack",
            "unpack",
            "import",
            "completions",
            "man",
        ] {
            assert!(stdout.contains(word), "{arguments:?} does not mention {word}");
        }
    }
}

#[test]
fn bash_accepts_its_completions() {
    let script = text(&retro(["completions", "bash"]).stdout);
    let mut bash = std::process::Command::new("bash");
    let outcome =
        retro_testkit::compare::run(bash.args(["--norc", "-n", "-c", &script]), crate::TIMEOUT);
    assert_eq!((outcome.status, text(&outcome.stderr)), (Ending::Exited(0), String::new()));
}

#[test]
fn wrong_usage_is_refused_with_a_hint() {
    for arguments in [
        &["fly"][..],
        &["run"],
        &["run", "--stats=xml", "--", "true"],
        &["run", "--bogus", "--", "true"],
        &["record"],
        &["record", "--interval", "many", "--", "true"],
        &["rm"],
        &["rm", "--all"],
        &["dump", "--kind", "everything"],
        &["unpack"],
        &["import"],
    ] {
        let outcome = retro(arguments);
        assert_eq!(outcome.status, Ending::Exited(2), "{arguments:?}");
        assert!(text(&outcome.stderr).contains("--help"), "{}", text(&outcome.stderr));
        assert!(outcome.stdout.is_empty());
    }
    let nothing = retro::<&str>([]);
    assert_eq!(nothing.status, Ending::Exited(2));
    assert!(text(&nothing.stderr).contains("Usage: retro"));
}
