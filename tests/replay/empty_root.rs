//! A packed recording needs nothing: neither what was recorded nor anything of a system.

use std::fs;
use std::path::Path;
use std::process::Command;

use retro_testkit::compare::{Ending, Outcome, run};

use crate::{Place, TIMEOUT, retro_path, text};

const LIBRARY: &str = "int next(int number) { return number + 1; }\n";

const PROGRAM: &str = r#"
#include <stdio.h>
int next(int);
int main(void) {
    char line[100];
    int number = 0;
    FILE *data = fopen("data", "r");
    while (fgets(line, sizeof line, data))
        printf("%d %s", number = next(number), line);
    fprintf(stderr, "%d lines\n", number);
    return number;
}
"#;

/// Compiles, records and packs the program; what is left is the pack.
fn packed(place: &Place) {
    let write = |name: &str, contents: &str| fs::write(place.path().join(name), contents).unwrap();
    write("library.c", LIBRARY);
    write("program.c", PROGRAM);
    write("data", "one\ntwo\n");
    for command in [
        "cc -g -shared -fPIC -o libnext.so library.c",
        "cc -g -o program program.c -L. -lnext -Wl,-rpath,$ORIGIN",
    ] {
        let mut words = command.split(' ');
        let compiled = run(place.command(words.next().unwrap()).args(words), TIMEOUT);
        assert_eq!(compiled.status, Ending::Exited(0), "{}", text(&compiled.stderr));
    }
    let recorded = place.record(&[], &["./program"]);
    assert_eq!(recorded.status, Ending::Exited(2), "{}", text(&recorded.stderr));
    let packed = place.retro(&["pack", "recording", "-o", "pack"]);
    assert_eq!(packed.status, Ending::Exited(0), "{}", text(&packed.stderr));
    for name in ["library.c", "program.c", "data", "libnext.so", "program"] {
        fs::remove_file(place.path().join(name)).unwrap();
    }
    fs::remove_dir_all(place.recording()).unwrap();
}

/// The libraries that a program needs to start, and the program that loads them.
fn libraries(program: &Path) -> Vec<String> {
    let listed = Command::new("ldd").arg(program).output().expect("ldd is there");
    let words = text(&listed.stdout);
    words.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect()
}

/// A directory that has `retro`, what it needs to start, and the pack, and nothing else.
fn make_root(root: &Path, pack: &Path) {
    fs::create_dir(root).unwrap();
    fs::copy(retro_path(), root.join("retro")).unwrap();
    for library in libraries(&retro_path()) {
        let copy = root.join(&library[1..]);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(library, copy).unwrap();
    }
    fs::copy(pack, root.join("pack")).unwrap();
}

/// `retro ARGUMENTS...` with nothing but that directory; `None` where that is not permitted.
fn confined(root: &Path, arguments: &[&str]) -> Option<Outcome> {
    // A user namespace gives the right to change the root, where the system lets users have one.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
    command.arg("chroot").arg(root).arg("/retro").args(arguments);
    let outcome = run(&mut command, TIMEOUT);
    let is_refused = text(&outcome.stderr).contains("unshare: ");
    (!is_refused).then_some(outcome)
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn in_an_empty_root() {
    let place = Place::new("empty-root");
    packed(&place);
    let root = place.path().join("root");
    make_root(&root, &place.path().join("pack"));
    let retro = |arguments: &[&str]| {
        confined(&root, arguments).unwrap_or_else(|| {
            // What is deleted is deleted here, too.
            let mut command = place.command(retro_path());
            run(command.current_dir(&root).args(arguments), TIMEOUT)
        })
    };
    let before = names_in(&root);
    let unpacked = retro(&["unpack", "pack", "-o", "recording"]);
    assert_eq!(unpacked.status, Ending::Exited(0), "{}", text(&unpacked.stderr));
    let verified = retro(&["verify", "recording"]);
    assert_eq!(verified.status, Ending::Exited(0), "{}", text(&verified.stderr));
    assert!(text(&verified.stdout).ends_with("OK\n"), "{}", text(&verified.stdout));
    let replayed = retro(&["replay", "recording"]);
    assert_eq!(text(&replayed.stdout), "1 one\n2 two\n");
    assert_eq!(text(&replayed.stderr), "2 lines\n");
    assert_eq!(replayed.status, Ending::Exited(0));
    // Names come from the copies in the pack.
    let traced = retro(&["replay", "--trace=calls", "recording"]);
    assert_eq!(traced.status, Ending::Exited(0), "{}", text(&traced.stderr));
    assert_eq!(text(&traced.stdout).matches("-> main (program.c:").count(), 1);
    // A failure leaves nothing behind either.
    fs::write(root.join("recording/log"), "no log").unwrap();
    assert_eq!(retro(&["verify", "recording"]).status, Ending::Exited(1));
    let mut after = names_in(&root);
    after.retain(|name| name != "recording");
    assert_eq!(after, before);
}
