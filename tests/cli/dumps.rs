//! `retro dump`: that the text is what happened, and only what was asked for.

use retro_testkit::compare::Ending;
use serde_json::Value;

use crate::store::Store;
use crate::text;

/// A store with one recording.
#[track_caller]
fn recorded(name: &str, command: &[&str]) -> Store {
    let store = Store::new(name);
    let outcome = store.record(command);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", text(&outcome.stderr));
    store
}

/// The events that a dump prints as JSON.
#[track_caller]
fn events(store: &Store, options: &[&str]) -> Vec<Value> {
    let output = store.output(["dump", "--json"].iter().chain(options));
    output.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[test]
fn calls_have_names_arguments_and_results() {
    let store = recorded("dump-calls", &["/bin/echo", "hello, dump"]);
    let calls = store.output(["dump", "--kind", "syscall"]);
    let written = calls.lines().find(|line| line.contains(" write(1, 0x")).expect("echo writes");
    assert!(written.ends_with(", 12) = 12"), "{written}");
    assert!(calls.contains("openat(AT_FDCWD, 0x"), "{calls}");
    assert!(calls.lines().last().unwrap().contains("exit_group(0)"), "{calls}");
    let whole = store.output(["dump"]);
    assert!(whole.lines().count() > calls.lines().count() * 2);
    assert!(whole.contains("/echo as /bin/echo 'hello, dump'"), "{whole}");
    assert!(whole.lines().last().unwrap().ends_with("end: exited with status 0"), "{whole}");
    assert!(whole.lines().any(|line| line.contains("map 0x") && line.contains(" r-x private /")));
    assert!(whole.lines().any(|line| line.contains("/libc.so.6 at 0x0")), "{whole}");
    assert!(!whole.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn filters_leave_out_everything_else() {
    let store = recorded("dump-filters", &["/bin/true"]);
    let all = events(&store, &[]);
    let kind = |event: &Value| event["kind"].as_str().unwrap().to_string();
    let time = |event: &Value| event["time"].as_u64().unwrap();
    let expected = |keep: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        all.iter().filter(|event| keep(event)).cloned().collect()
    };
    assert!(all.len() > 100 && all.is_sorted_by_key(time));
    let middle = time(&all[all.len() / 2]).to_string();
    let middle_time = time(&all[all.len() / 2]);
    assert_eq!(events(&store, &["--kind", "load"]), expected(&|event| kind(event) == "load"));
    assert_eq!(
        events(&store, &["--kind", "map,syscall"]),
        expected(&|event| kind(event) == "map" || kind(event).starts_with("syscall-"))
    );
    assert_eq!(events(&store, &["--from", &middle]), expected(&|event| time(event) >= middle_time));
    assert_eq!(events(&store, &["--to", &middle]), expected(&|event| time(event) <= middle_time));
    assert_eq!(events(&store, &["--limit", "7"]), all[..7]);
    let thread = all[0]["thread"].to_string();
    assert_eq!(events(&store, &["--thread", &thread]), all);
    assert!(events(&store, &["--thread", "1"]).is_empty());
    assert_eq!(store.output(["dump", "--limit", "3"]).lines().count(), 3);
    assert_eq!(store.output(["dump", "--limit", "0"]), "");

    let pid = all[0]["pid"].to_string();
    assert_eq!(events(&store, &["--pid", &pid]), all);
    assert_eq!(events(&store, &["--log", "0"]), all);
    for wrong in [["--log", "5"], ["--pid", "1"]] {
        let outcome = store.retro(["dump"].iter().chain(&wrong));
        assert_eq!(outcome.status, Ending::Exited(1));
        let stderr = text(&outcome.stderr);
        assert!(stderr.contains(&format!("its logs are 0 (pid {pid})")), "{stderr}");
    }
}

#[test]
fn bytes_are_shown_as_far_as_asked() {
    let store = recorded("dump-bytes", &["/bin/cat", "/proc/version"]);
    let contents = std::fs::read_to_string("/proc/version").unwrap();
    let hex: String = contents.bytes().map(|byte| format!("{byte:02x}")).collect();
    let writes = events(&store, &["--kind", "write"]);
    assert!(writes.iter().any(|event| event["bytes"] == hex.as_str()), "{writes:?}");
    let short = events(&store, &["--kind", "write", "--hex", "3"]);
    assert!(short.iter().all(|event| event["bytes"].as_str().unwrap().len() <= 6));
    let line = store.output(["dump", "--kind", "write", "--hex", "13"]);
    assert!(line.contains("|Linux version|..."), "{line}");
}

#[test]
fn code_and_files_are_in_the_other_stream() {
    let store = recorded("dump-code", &["/bin/true"]);
    let files = store.output(["dump", "--code", "--kind", "file"]);
    assert!(files.contains("/true: ") && files.contains("build id "), "{files}");
    let code = events(&store, &["--code", "--kind", "code"]);
    assert!(code.len() > 10 && code.iter().all(|event| event["length"].as_u64() > Some(0)));
}

#[test]
fn threads_are_told_apart() {
    let store = Store::new("dump-threads");
    let program = store.compile(
        "threads",
        "#include <pthread.h>
        #include <unistd.h>
        static void *body(void *name) { return (void *)write(1, name, 1); }
        int main(void) {
            pthread_t thread;
            pthread_create(&thread, 0, body, \"t\");
            pthread_join(thread, 0);
            return write(1, \"m\", 1) != 1;
        }\n",
    );
    assert_eq!(text(&store.record(&[&program]).stdout), "tm");
    let all = events(&store, &[]);
    let main_thread = all[0]["pid"].as_u64().unwrap();
    let started =
        all.iter().find(|event| event["kind"] == "thread-start").expect("a thread starts");
    let other_thread = started["to"].as_u64().unwrap();
    assert_ne!(main_thread, other_thread);
    let writes: Vec<u64> = all
        .iter()
        .filter(|event| event["name"] == "write")
        .map(|event| event["thread"].as_u64().unwrap())
        .collect();
    assert_eq!(writes, [other_thread, main_thread]);
    // Also when the dump begins in the middle of the log.
    let switched = all.iter().rposition(|event| event["kind"] == "thread-switch").unwrap();
    let after = &all[switched + 1];
    let from = (after["time"].as_u64().unwrap() + 1).to_string();
    let tail = events(&store, &["--from", &from]);
    assert!(!tail.is_empty() && all.ends_with(&tail));
}

#[test]
fn signals_have_names_and_reasons() {
    let store = recorded("dump-signals", &["sh", "-c", "trap 'echo caught' USR1; kill -USR1 $$"]);
    let signals = store.output(["dump", "--kind", "signal"]);
    assert!(signals.contains("SIGUSR1 (SI_USER, process "), "{signals}");
    assert!(signals.contains(") handler 0x"), "{signals}");
    assert_eq!(store.json(["info", "--json"])["signals"]["SIGUSR1"], 1);
    let calls = store.output(["dump", "--kind", "syscall"]);
    assert!(calls.contains(", SIGUSR1) = 0") || calls.contains(", SIGUSR1) ..."), "{calls}");
}

#[test]
fn several_processes_have_headings() {
    let store = recorded("dump-tree", &["sh", "-c", "/bin/true; /bin/true"]);
    let logs: Vec<u64> = {
        let info = store.json(["info", "--json"]);
        let processes = info["processes"].as_array().unwrap();
        processes.iter().map(|process| process["log"].as_u64().unwrap()).collect()
    };
    assert!(logs.len() >= 3);
    let whole = store.output(["dump"]);
    let headings = whole.lines().filter(|line| line.starts_with("log "));
    assert_eq!(headings.count(), logs.len());
    for log in logs {
        let only = events(&store, &["--log", &log.to_string()]);
        assert!(only.len() > 10 && only.iter().all(|event| event["log"] == log));
        assert!(only[0]["kind"] == "start" && only.last().unwrap()["kind"] == "end");
    }
}
