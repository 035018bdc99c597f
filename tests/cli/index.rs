//! `retro index`: building, stopping, going on, and what it does to a disk; and the indexer that `retro record` starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use retro_testkit::compare::{Ending, run};
use serde_json::Value;

use crate::store::Store;
use crate::{TIMEOUT, retro_path, text};

/// Some 300 million instructions.
const SPIN: &str =
    "int main(void) { for (volatile long i = 0; i < 60 * 1000 * 1000; i++); return 0; }\n";

/// Windows so small that indexing this takes a while.
const SMALL_WINDOWS: [&str; 2] = ["--window", "10k"];

#[test]
fn an_index_is_built_once_and_described() {
    let store = Store::new("index-build");
    store.record(&["sh", "-c", "for n in 1 2 3 4 5; do /bin/echo $n; done"]);
    let before = log_of(&store);
    let info = store.json(["info", "--json"]);
    assert_eq!((&info["index"]["complete"], &info["index"]["bytes"]), (&false.into(), &0.into()));
    assert!(store.output(["info"]).contains("none: `retro index` builds it"));
    let status = store.retro(["index", "--status"]);
    assert_eq!(status.status, Ending::Exited(1));
    assert!(text(&status.stdout).contains("sh-1: 0% indexed"), "{}", text(&status.stdout));

    let built = store.output(["index"]);
    for part in
        ["sh-1: indexed, ", " instructions, ", " windows in ", " bits per instruction, ", " s\n"]
    {
        assert!(built.contains(part), "{part:?} is missing in {built}");
    }
    let index = store.json(["index", "--json"]);
    assert_eq!(index["complete"], true, "{index}");
    assert_eq!(index["intervals"], index["indexed_intervals"]);
    assert!(index["intervals"].as_u64() >= Some(6), "{index}");
    assert_eq!(index["instructions"], index["indexed_instructions"]);
    assert!(index["bytes"].as_u64() > Some(1000) && index["seconds"].as_f64().is_some(), "{index}");
    let info = store.json(["info", "--json", "--check"]);
    assert_eq!(info["index"]["percent"], 100.0);
    assert_eq!(info["index"]["bytes"], index["bytes"]);
    assert_eq!(info["index"]["building"], false);
    assert!(store.output(["info"]).contains("indexed, "));
    let status = store.json(["index", "--status", "--json"]);
    assert_eq!((&status["complete"], &status["seconds"]), (&true.into(), &Value::Null));
    assert!(log_of(&store) == before, "the log has changed");
}

#[test]
fn reads_can_be_added_later() {
    let store = Store::new("index-reads");
    store.record(&["/bin/echo"]);
    let plain = store.json(["index", "--json"]);
    let with_reads = store.json(["index", "--reads", "--json"]);
    assert!(plain["bytes"].as_u64() < with_reads["bytes"].as_u64(), "{plain} {with_reads}");
    assert!(volume(&store).join("reads").exists());
}

#[test]
fn a_killed_build_goes_on_where_it_was() {
    let store = Store::new("index-kill");
    record_spin(&store, &["--interval", "20M"]);
    let before = log_of(&store);
    for _ in 0..2 {
        let done = status(&store)["indexed_intervals"].as_u64();
        let mut builder = start(&store, &["--jobs", "1", "--window", "20k"]);
        wait_until("an interval is indexed", || {
            status(&store)["indexed_intervals"].as_u64() > done
        });
        builder.kill().unwrap();
        builder.wait().unwrap();
    }
    let interrupted = status(&store);
    assert_eq!(
        (&interrupted["complete"], &interrupted["building"]),
        (&false.into(), &false.into())
    );
    // Whichever interval was indexed first.
    let volumes = fs::read_dir(store.root().join("latest/index")).unwrap();
    let words = volumes.map(|volume| volume.unwrap().path().join("words"));
    let kept = words.filter(|path| path.exists()).min_by_key(|path| modified(path)).unwrap();
    let time = modified(&kept);
    assert_eq!(store.json(["index", "--json"])["complete"], true);
    assert_eq!(modified(&kept), time, "what was complete was built again");
    store.output(["info", "--check"]);
    assert!(log_of(&store) == before, "the log has changed");
}

#[test]
fn a_killed_build_goes_on_in_the_middle_of_an_interval() {
    let store = Store::new("index-kill-middle");
    record_spin(&store, &["--interval", "1G"]);
    let mut builder = start(&store, &["--window", "4k"]);
    // That takes some seconds: what is done is committed now and then.
    wait_until("windows are committed", || status(&store)["windows"].as_u64() > Some(0));
    builder.kill().unwrap();
    builder.wait().unwrap();
    let killed = status(&store);
    assert_eq!((&killed["complete"], &killed["intervals"]), (&false.into(), &1.into()), "{killed}");
    let finished = store.json(["index", "--json"]);
    assert_eq!(finished["complete"], true, "{finished}");
    // It goes on with windows of the same size.
    let instructions = finished["instructions"].as_u64().unwrap();
    assert_eq!(finished["windows"].as_u64(), Some(instructions.div_ceil(4_000)));
    store.output(["info", "--check"]);
}

#[test]
fn an_interrupt_keeps_what_is_done() {
    let store = Store::new("index-interrupt");
    record_spin(&store, &[]);
    let builder = start(&store, &SMALL_WINDOWS);
    wait_until("the build has begun", || {
        // Written in portions.
        fs::metadata(volume(&store).join("windows")).is_ok_and(|file| file.len() > 10_000)
    });
    kill(Pid::from_raw(builder.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = builder.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(
        stderr,
        "retro: stopped; what is done is kept, and `retro index` goes on from there\n"
    );
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGINT));
    let stopped = status(&store);
    assert!(stopped["indexed_instructions"].as_u64() > Some(0), "{stopped}");
    assert_eq!(stopped["complete"], false, "{stopped}");
    assert_eq!(store.json(["index", "--json"])["complete"], true);
    store.output(["info", "--check"]);
}

#[test]
fn those_who_come_second_wait() {
    let store = Store::new("index-wait");
    record_spin(&store, &[]);
    let first = start(&store, &SMALL_WINDOWS);
    wait_until("the build has begun", || status(&store)["building"] == true);
    let second = store.retro(["index", "--json"]);
    let stderr = text(&second.stderr);
    assert_eq!(second.status, Ending::Exited(0), "{stderr}");
    assert_eq!(stderr, "retro: another process is indexing this recording: waiting for it\n");
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(status(&store)["complete"], true);
}

#[test]
fn a_damaged_index_is_found_and_built_again() {
    let store = Store::new("index-damage");
    store.record(&["/bin/echo"]);
    let before = log_of(&store);
    store.output(["index"]);
    for name in ["words", "pages", "calls", "rows", "manifest"] {
        let path = volume(&store).join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        for arguments in [&["index"][..], &["info", "--check"]] {
            let found = store.retro(arguments);
            let stderr = text(&found.stderr);
            assert_eq!(found.status, Ending::Exited(1), "{name}: {stderr}");
            assert!(stderr.contains("damaged") && stderr.contains("--rebuild"), "{name}: {stderr}");
        }
        store.output(["index", "--rebuild"]);
        store.output(["info", "--check"]);
    }
    assert!(log_of(&store) == before, "the log has changed");
}

#[test]
fn a_recording_that_is_removed_takes_its_index_along() {
    let store = Store::new("index-remove");
    record_spin(&store, &[]);
    let builder = start(&store, &SMALL_WINDOWS);
    wait_until("the build has begun", || volume(&store).join("words").exists());
    let removed = store.retro(["rm", "spin-1"]);
    assert_eq!(removed.status, Ending::Exited(0), "{}", text(&removed.stderr));
    let output = builder.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(stderr, "retro: the recording was removed while it was indexed\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_dir(store.root()).unwrap().count(), 0, "something is left");
}

#[test]
fn packs_leave_the_index_out() {
    let store = Store::new("index-pack");
    store.record(&["/bin/echo"]);
    store.retro(["pack", "-o", "before.retro"]);
    store.output(["index"]);
    store.retro(["pack", "-o", "after.retro"]);
    let read = |name: &str| fs::read(store.directory().join(name)).unwrap();
    assert!(read("before.retro") == read("after.retro"));
    assert_eq!(store.retro(["unpack", "after.retro", "-o", "again"]).status, Ending::Exited(0));
    assert_eq!(store.json(["index", "again", "--json"])["complete"], true);
}

#[test]
fn a_full_disk_loses_nothing() {
    let store = Store::new("index-disk");
    record_spin(&store, &["--interval", "50M"]);
    let script = r#"
        mkdir small && mount -t tmpfs -o size=600k none small || exit 77
        cp -r retro/spin-1 small/ && sum=$(sha256sum < small/spin-1/log)
        "$retro" index small/spin-1 --window 2k && echo "it fits"
        [ "$(sha256sum < small/spin-1/log)" = "$sum" ] || echo "the log has changed"
        mount -o remount,size=500m small && "$retro" index small/spin-1 && "$retro" info --check small/spin-1
        umount small
    "#;
    let Some((stdout, stderr)) = in_own_mounts(&store, script) else { return };
    // Who notices first: the disk, or whoever asks it before writing.
    let full = stderr.contains("No space left on device") || stderr.contains("no room in small/");
    assert!(full && stderr.contains("free some space"), "{stderr}");
    assert!(!stdout.contains("it fits") && !stdout.contains("has changed"), "{stdout}");
    assert!(stdout.contains("small/spin-1: indexed, "), "{stdout} {stderr}");
}

#[test]
fn a_place_that_cannot_be_written_is_told() {
    let store = Store::new("index-read-only");
    store.record(&["/bin/echo"]);
    let script = r#"
        mount --bind retro retro && mount -o remount,ro,bind retro || exit 77
        "$retro" index; echo "status $?"
        RETRO_DIR=elsewhere "$retro" index retro/echo-1 >/dev/null; echo "status $?"
        umount retro
    "#;
    let Some((stdout, stderr)) = in_own_mounts(&store, script) else { return };
    assert_eq!(stdout, "status 1\nstatus 0\n", "{stderr}");
    assert!(
        stderr.contains("Read-only file system") && stderr.contains("set RETRO_DIR"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn recordings_are_indexed_in_the_background() {
    let store = Store::new("index-background");
    let mut command = indexing(&store);
    command.args(["record", "--", "sh", "-c", "/bin/echo one; /bin/echo two; exit 4"]);
    let outcome = run(&mut command, TIMEOUT);
    assert_eq!((outcome.status, text(&outcome.stdout)), (Ending::Exited(4), "one\ntwo\n".into()));
    let stderr = text(&outcome.stderr);
    assert!(stderr.ends_with("; indexing goes on in the background\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    wait_until("it is indexed", || store.json(["info", "--json"])["index"]["complete"] == true);
    wait_until("the indexer has ended", || indexer_of(&store).is_none());
    store.output(["info", "--check"]);
    assert_eq!(text(&store.retro(["index", "--status"]).stderr), "");
}

#[test]
fn what_is_closed_is_indexed_while_the_program_runs() {
    let store = Store::new("index-behind");
    let source = SPIN.replace("return 0", "(void)!__builtin_getchar()");
    let source = format!("#include <stdio.h>\n{}", source.replace("__builtin_getchar", "getchar"));
    let program = store.compile("spin", &source);
    let mut command = indexing(&store);
    command.args(["record", "-q", "--interval", "20M", "--", &program]);
    let mut recorder = command.stdin(Stdio::piped()).spawn().unwrap();
    wait_until("there is a recording", || store.root().join("latest").exists());
    wait_until("the index grows", || status(&store)["indexed_intervals"].as_u64() >= Some(5));
    let running = status(&store);
    assert_eq!((&running["state"], &running["building"]), (&"running".into(), &true.into()));
    drop(recorder.stdin.take());
    recorder.wait().unwrap();
    wait_until("it is indexed", || status(&store)["complete"] == true);
    wait_until("the indexer has ended", || indexer_of(&store).is_none());
}

#[test]
fn forked_children_are_indexed_while_their_parent_runs() {
    let store = Store::new("index-forked");
    let mut command = indexing(&store);
    // The child executes code that it has from its parent, whose log goes on.
    command.args(["record", "-q", "--", "bash", "-c", "(:); read line; exit 3"]);
    let mut recorder = command.stdin(Stdio::piped()).spawn().unwrap();
    wait_until("there is a recording", || store.root().join("latest").exists());
    wait_until("the child is indexed", || status(&store)["indexed_intervals"] == 1);
    assert_eq!(status(&store)["state"], "running");
    drop(recorder.stdin.take());
    recorder.wait().unwrap();
    wait_until("it is indexed", || status(&store)["complete"] == true);
    wait_until("the indexer has ended", || indexer_of(&store).is_none());
    assert_eq!(text(&store.retro(["index", "--status"]).stderr), "");
}

#[test]
fn the_indexer_keeps_to_itself() {
    let store = Store::new("index-apart");
    let script = r#"exec 7> marker; exec "$retro" record -q -- sleep 60"#;
    let mut command = indexing_program(&store, "bash");
    let mut recorder = command.args(["-c", script]).env("retro", retro_path()).spawn().unwrap();
    wait_until("there is an indexer", || indexer_of(&store).is_some());
    let indexer = indexer_of(&store).unwrap();
    wait_until("it has begun", || {
        fs::read_to_string(indexer.join("comm")).is_ok_and(|name| name == "retro-indexer\n")
    });
    let stat = fs::read_to_string(indexer.join("stat")).unwrap();
    let fields: Vec<i64> = stat[stat.rfind(')').unwrap() + 2..]
        .split(' ')
        .filter_map(|field| field.parse().ok())
        .collect();
    // Without the name and the state before them: parent, group, session; niceness is the 19th.
    let [parent, group, session] = fields[..3] else { panic!("{stat}") };
    let supervisor = i64::from(recorder.id());
    assert_ne!(parent, supervisor);
    assert!(group != supervisor && session == group, "{stat}");
    assert!(fields[15] >= 10, "{stat}");
    for entry in fs::read_dir(indexer.join("fd")).unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        assert!(!target.ends_with("marker"), "{target:?}");
        let number: u32 = entry.file_name().to_str().unwrap().parse().unwrap();
        assert!(number > 2 || target == Path::new("/dev/null"), "{number} is {target:?}");
    }
    kill(Pid::from_raw(recorder.id().cast_signed()), Signal::SIGTERM).unwrap();
    recorder.wait().unwrap();
    wait_until("the indexer has ended", || indexer_of(&store).is_none());
}

#[test]
fn an_indexer_ends_with_its_recording() {
    let store = Store::new("index-gone");
    let program = store.compile("spin", SPIN);
    let mut command = indexing(&store);
    assert_eq!(
        run(command.args(["record", "-q", "--", &program]), TIMEOUT).status,
        Ending::Exited(0)
    );
    let removed = store.retro(["rm", "spin-1"]);
    assert_eq!(removed.status, Ending::Exited(0), "{}", text(&removed.stderr));
    wait_until("the indexer has ended", || indexer_of(&store).is_none());
    assert_eq!(fs::read_dir(store.root()).unwrap().count(), 0, "something is left");
}

#[test]
fn nothing_is_indexed_in_the_background_unless_it_is_wanted() {
    let store = Store::new("index-unwanted");
    for (options, value) in [(&["--no-index"][..], "0"), (&[], "1"), (&[], "yes")] {
        let mut command = store.command(retro_path());
        command.env("RETRO_NO_INDEX", value).arg("record").args(options).args(["--", "/bin/echo"]);
        let stderr = text(&run(&mut command, TIMEOUT).stderr);
        assert!(stderr.ends_with("exited with status 0\n"), "{stderr}");
        assert_eq!(indexer_of(&store), None);
    }
    let failed = run(indexing(&store).args(["record", "--", "no-such-command"]), TIMEOUT);
    assert_eq!(text(&failed.stderr), "retro: no-such-command: command not found\n");
    let failed =
        run(indexing(&store).args(["record", "-o", "there", "--", "/etc/passwd"]), TIMEOUT);
    assert_eq!(failed.status, Ending::Exited(126), "{}", text(&failed.stderr));
    wait_until("the indexer has ended", || indexer_of(&store).is_none());
    assert!(!store.directory().join("there").exists());
}

/// `retro`, which indexes in the background.
fn indexing(store: &Store) -> Command {
    indexing_program(store, retro_path())
}

fn indexing_program(store: &Store, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = store.command(program);
    command.env("RETRO_NO_INDEX", "0");
    command
}

#[track_caller]
fn record_spin(store: &Store, options: &[&str]) {
    let program = store.compile("spin", SPIN);
    let line = [&["record", "-q"], options, &["--", &program]].concat();
    assert_eq!(store.retro(line).status, Ending::Exited(0));
}

/// Starts `retro index`.
fn start(store: &Store, options: &[&str]) -> Child {
    let mut command = store.command(retro_path());
    command.arg("index").args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What `retro index --status` says, whether the index is complete or not.
fn status(store: &Store) -> Value {
    let outcome = store.retro(["index", "--status", "--json"]);
    serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&outcome.stderr)))
}

/// The index of the first interval of the latest recording.
fn volume(store: &Store) -> PathBuf {
    store.root().join("latest/index/0-0")
}

fn log_of(store: &Store) -> Vec<u8> {
    fs::read(store.root().join("latest/log")).unwrap()
}

fn modified(path: &Path) -> std::time::SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// The directory in `/proc` of an indexer of this store's recordings.
fn indexer_of(store: &Store) -> Option<PathBuf> {
    let root = store.directory().to_str().unwrap().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let mut indexers = processes.filter(|process| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let line = text(&line);
        line.contains("\0--follow\0") && line.contains(&root)
    });
    indexers.next()
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a script that may mount things, or says loudly that this user may not.
fn in_own_mounts(store: &Store, script: &str) -> Option<(String, String)> {
    let mut command = store.command("unshare");
    command.args(["--mount", "bash", "-c", script]).env("retro", retro_path());
    let outcome = run(&mut command, TIMEOUT);
    let (stdout, stderr) = (text(&outcome.stdout), text(&outcome.stderr));
    // What `unshare` and the scripts end with if they may not.
    if matches!(outcome.status, Ending::Exited(1 | 77)) && stdout.is_empty() {
        eprintln!("SKIPPED: mounting takes privileges: {stderr}");
        return None;
    }
    Some((stdout, stderr))
}
