//! `retro record` and the commands that keep recordings: what a user sees, and that a program sees nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use retro_testkit::compare::{Ending, run};

use crate::store::Store;
use crate::{TIMEOUT, retro_path, text};

const CRASH: &str = "int main(void) { *(volatile int *)16 = 1; return 0; }\n";

#[test]
fn output_and_exit_status_are_the_program_s() {
    let store = Store::new("record-status");
    let script = r"printf 'a\0\377\n'; cat; echo err >&2; exit 3";
    let input = store.directory().join("input");
    fs::write(&input, (0..200_000u32).map(|n| (n * 7) as u8).collect::<Vec<u8>>()).unwrap();
    let outcome =
        |command: &mut Command| run(command.stdin(fs::File::open(&input).unwrap()), TIMEOUT);
    let native = outcome(store.command("bash").args(["-c", script]));
    let mut recorded = store.command(retro_path());
    recorded.args(["record", "--quiet", "--", "bash", "-c", script]);
    let recorded = outcome(&mut recorded);
    assert_eq!(native.status, Ending::Exited(3));
    assert_eq!(native.stdout.len(), 200_004);
    assert!(native == recorded, "{:?} {}", recorded.status, text(&recorded.stderr));
}

#[test]
fn a_signal_that_kills_the_program_kills_retro() {
    let store = Store::new("record-signal");
    let crash = store.compile("crash", CRASH);
    let outcome = store.retro(["record", "--", &crash]);
    assert_eq!(outcome.status, Ending::Signaled(libc::SIGSEGV));
    let stderr = text(&outcome.stderr);
    assert!(stderr.contains("killed by SIGSEGV"), "{stderr}");
    let info = store.json(["info", "--json"]);
    assert_eq!(info["signal"], libc::SIGSEGV, "{info}");
    assert_eq!(info["ended"], "killed by SIGSEGV");
    assert_eq!(info["signals"]["SIGSEGV"], 1);
    let dump = store.output(["dump", "--kind", "signal"]);
    assert!(dump.contains("SIGSEGV (SEGV_MAPERR, address 0x10"), "{dump}");
    assert!(dump.contains("ends the process"), "{dump}");
}

#[test]
fn one_line_sums_up_and_can_be_silenced() {
    let store = Store::new("record-summary");
    let outcome = store.retro(["record", "--", "/bin/echo", "hello"]);
    assert_eq!((outcome.status, text(&outcome.stdout)), (Ending::Exited(0), "hello\n".into()));
    let stderr = text(&outcome.stderr);
    let [line] = stderr.lines().collect::<Vec<_>>()[..] else { panic!("not one line: {stderr}") };
    for part in [
        "retro: recorded echo-1: ",
        " instructions in ",
        " (1 process), log ",
        " bits/instruction, exited with status 0",
    ] {
        assert!(line.contains(part), "{part:?} is missing in {line}");
    }
    assert!(!line.contains('\x1b'), "no colours in a pipe: {line}");

    let quiet = store.retro(["record", "--quiet", "--", "/bin/echo", "hello"]);
    assert_eq!((quiet.status, text(&quiet.stderr)), (Ending::Exited(0), String::new()));
    let failed = store.retro(["record", "--quiet", "--", "no-such-command"]);
    assert_eq!(failed.status, Ending::Exited(127));
    assert_eq!(text(&failed.stderr), "retro: no-such-command: command not found\n");
}

#[test]
fn a_program_that_does_not_start_leaves_nothing() {
    let store = Store::new("record-errors");
    assert_eq!(store.record(&["/bin/true"]).status, Ending::Exited(0));
    let broken = store.directory().join("text");
    fs::write(&broken, "echo a shell would read this\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    for (command, status, message) in [
        ("no-such-command", 127, "command not found"),
        ("./absent", 127, "No such file or directory"),
        ("./text", 126, "Exec format error"),
        ("/", 126, "Is a directory"),
    ] {
        for place in [&["--name", "x"][..], &["-o", "there"]] {
            let outcome = store.retro(["record"].iter().chain(place).chain(&["--", command]));
            let stderr = text(&outcome.stderr);
            assert_eq!(outcome.status, Ending::Exited(status), "{command}: {stderr}");
            assert!(stderr.starts_with("retro: ") && stderr.contains(message), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(!store.directory().join("there").exists());
        }
    }
    assert_eq!(store.json(["info", "--json"])["name"], "true-1");
    let listed = store.json(["ls", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let left = fs::read_dir(store.root()).unwrap().count();
    assert_eq!(left, 2, "only the recording and `latest`");
}

#[test]
fn recordings_are_numbered_and_the_latest_is_the_default() {
    let store = Store::new("record-names");
    let nothing = store.retro(["ls"]);
    assert_eq!((nothing.status, text(&nothing.stdout)), (Ending::Exited(0), String::new()));
    assert_eq!(text(&store.retro(["ls", "--json"]).stdout), "[]\n");

    assert_eq!(store.record(&["/bin/true"]).status, Ending::Exited(0));
    assert_eq!(store.record(&["/bin/false"]).status, Ending::Exited(1));
    assert_eq!(store.record(&["/bin/true"]).status, Ending::Exited(0));
    let named = store.retro(["record", "-q", "--name", "my run", "--", "sh", "-c", "exit 7"]);
    assert_eq!(named.status, Ending::Exited(7));
    let outside = store.retro(["record", "-q", "-o", "outside", "--", "/bin/true"]);
    assert_eq!(outside.status, Ending::Exited(0), "{}", text(&outside.stderr));
    let latest = store.json(["info", "--json"]);
    assert_eq!(latest["path"], store.directory().join("outside").to_str().unwrap());

    let listed = store.json(["ls", "--json"]);
    let field = |name: &str| -> Vec<String> {
        listed.as_array().unwrap().iter().map(|row| row[name].to_string()).collect()
    };
    assert_eq!(field("name"), [r#""true-1""#, r#""false-1""#, r#""true-2""#, r#""my_run-1""#]);
    assert_eq!(field("state"), [r#""finished""#; 4]);
    assert_eq!(listed[1]["ended"], "exited with status 1");
    assert_eq!(listed[3]["command"][2], "exit 7");
    assert!(listed[0]["instructions"].as_u64() > Some(10_000), "{listed}");
    assert!(listed[0]["bytes"].as_u64() > Some(1_000), "{listed}");

    assert_eq!(store.record(&["/bin/false"]).status, Ending::Exited(1));
    let table = store.output(["ls"]);
    let last = table.lines().last().unwrap();
    assert!(last.starts_with("*  false-2 ") && last.ends_with(" /bin/false"), "{table}");
    assert_eq!(table.matches('*').count(), 1, "{table}");
    for name in ["true-1", "outside", "./outside", "retro/true-1", "latest"] {
        assert!(store.output(["info", name]).contains("/bin/"), "{name}");
    }
}

#[test]
fn an_unknown_name_lists_what_there_is() {
    let store = Store::new("record-unknown");
    for command in ["info", "dump", "pack", "rm"] {
        let outcome = store.retro([command, "absent"]);
        assert_eq!(outcome.status, Ending::Exited(1), "{command}");
        let stderr = text(&outcome.stderr);
        assert!(stderr.starts_with("retro: no recording \"absent\""), "{stderr}");
        assert!(stderr.contains("retro record"), "{stderr}");
    }
    let latest = store.retro(["info"]);
    assert_eq!(latest.status, Ending::Exited(1));
    assert!(text(&latest.stderr).contains("no latest recording"), "{}", text(&latest.stderr));

    assert_eq!(store.record(&["/bin/true"]).status, Ending::Exited(0));
    let stderr = text(&store.retro(["info", "absent"]).stderr);
    assert!(stderr.contains("which holds true-1"), "{stderr}");
    fs::create_dir(store.directory().join("plain")).unwrap();
    let stderr = text(&store.retro(["info", "./plain"]).stderr);
    assert!(stderr.contains("./plain is not a recording"), "{stderr}");
}

#[test]
fn removing_takes_recordings_only() {
    let store = Store::new("record-rm");
    for _ in 0..4 {
        assert_eq!(store.record(&["/bin/true"]).status, Ending::Exited(0));
    }
    let precious = store.directory().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("log"), "a diary\n").unwrap();
    let outcome = store.retro(["rm", "true-1", "precious", "absent", "true-2"]);
    assert_eq!(outcome.status, Ending::Exited(1));
    let stderr = text(&outcome.stderr);
    assert!(stderr.contains("removed true-1") && stderr.contains("removed true-2"), "{stderr}");
    assert_eq!(stderr.lines().count(), 4, "{stderr}");
    assert_eq!(fs::read(precious.join("log")).unwrap(), b"a diary\n");
    assert!(!store.root().join("true-1").exists() && !store.root().join("true-2").exists());

    assert_eq!(store.retro(["rm", "true-4"]).status, Ending::Exited(0));
    assert_eq!(store.json(["info", "--json"])["name"], "true-3");
    assert_eq!(store.retro(["rm", "--all"]).status, Ending::Exited(2));
    assert!(store.root().join("true-3").exists());
    // Something of the same name lies where the command runs.
    fs::rename(&precious, store.directory().join("true-3")).unwrap();
    assert_eq!(store.retro(["rm", "--all", "--force"]).status, Ending::Exited(0));
    assert!(!store.root().join("true-3").exists());
    assert!(store.directory().join("true-3/log").exists());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let store = Store::new("record-unwritable");
    fs::write(store.directory().join("file"), "").unwrap();
    fs::create_dir(store.directory().join("full")).unwrap();
    fs::write(store.directory().join("full/log"), "mine").unwrap();
    for (place, message) in [
        ("file/below", "file/below: Not a directory"),
        ("file", "file"),
        ("absent/below", "absent/below: No such file or directory"),
        ("/proc/here", "/proc/here: "),
        ("full", "full is not empty"),
    ] {
        let outcome = store.retro(["record", "-o", place, "--", "/bin/echo", "started"]);
        let stderr = text(&outcome.stderr);
        assert_eq!(outcome.status, Ending::Exited(125), "{place}: {stderr}");
        assert!(stderr.starts_with("retro: ") && stderr.contains(message), "{stderr}");
        assert!(outcome.stdout.is_empty(), "the program was not started");
    }
    assert_eq!(fs::read(store.directory().join("full/log")).unwrap(), b"mine");

    let mut command = store.command(retro_path());
    command.args(["record", "--", "/bin/true"]).env("XDG_DATA_HOME", "/proc/nowhere");
    let outcome = run(&mut command, TIMEOUT);
    assert_eq!(outcome.status, Ending::Exited(125));
    let stderr = text(&outcome.stderr);
    assert!(stderr.contains("RETRO_DIR") && stderr.contains("/proc/nowhere"), "{stderr}");
}

#[test]
fn retro_dir_comes_first() {
    let store = Store::new("record-variable");
    let elsewhere = store.directory().join("elsewhere");
    let mut command = store.command(retro_path());
    command.args(["record", "-q", "--", "/bin/true"]).env("RETRO_DIR", &elsewhere);
    assert!(command.status().unwrap().success());
    assert!(elsewhere.join("true-1/log").is_file() && !store.root().exists());
}

#[test]
fn only_the_owner_can_read_what_is_made() {
    fn check(path: &Path, checked: &mut u32) {
        let metadata = fs::symlink_metadata(path).unwrap();
        if metadata.is_symlink() {
            return;
        }
        *checked += 1;
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        let mode = metadata.permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{} has mode {mode:o}", path.display());
        if metadata.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                check(&entry.unwrap().path(), checked);
            }
        }
    }
    let store = Store::new("record-permissions");
    let script = "umask 0; mkdir empty; set -e
        \"$retro\" record -q -- /bin/true; \"$retro\" record -q -o out -- /bin/true
        \"$retro\" record -q -o empty -- /bin/true
        \"$retro\" pack true-1; \"$retro\" unpack true-1.retro -o unpacked; \"$retro\" unpack true-1.retro";
    let outcome = store.bash(script);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", text(&outcome.stderr));
    let mut checked = 0;
    for name in ["retro", "out", "empty", "true-1.retro", "unpacked"] {
        check(&store.directory().join(name), &mut checked);
    }
    assert!(checked > 12, "{checked}");
}

#[test]
fn a_pack_becomes_the_same_recording_again() {
    let store = Store::new("record-pack");
    assert_eq!(
        store.record(&["sh", "-c", "/bin/echo $(/bin/true) packed"]).status,
        Ending::Exited(0)
    );
    let packed = store.retro(["pack"]);
    let stderr = text(&packed.stderr);
    assert_eq!(packed.status, Ending::Exited(0), "{stderr}");
    assert!(stderr.contains("packed sh-1 into sh-1.retro"), "{stderr}");
    let listed = text(&packed.stdout);
    assert!(listed.contains("libc.so") && listed.contains("/echo"), "{listed}");

    let again = store.retro(["pack", "sh-1"]);
    assert_eq!(again.status, Ending::Exited(1));
    assert!(text(&again.stderr).contains("sh-1.retro exists already"), "{}", text(&again.stderr));

    let dump = store.output(["dump", "--json"]);
    assert_eq!(store.retro(["rm", "sh-1"]).status, Ending::Exited(0));
    let unpacked = store.retro(["unpack", "sh-1.retro"]);
    let stderr = text(&unpacked.stderr);
    assert_eq!(unpacked.status, Ending::Exited(0), "{stderr}");
    assert!(stderr.contains("unpacked sh-1 "), "{stderr}");
    assert!(text(&unpacked.stdout).contains("libc.so"));
    assert!(dump == store.output(["dump", "--json"]));
    let info = store.json(["info", "--json", "--check"]);
    assert_eq!(info["name"], "sh-1");
    assert!(info["bytes"].as_u64() > info["log"]["bytes"].as_u64(), "{info}");

    // The name is taken now, and so is a directory that exists.
    assert!(text(&store.retro(["unpack", "sh-1.retro"]).stderr).contains("unpacked sh-1-1 "));
    assert_eq!(store.retro(["unpack", "sh-1.retro", "-o", "here"]).status, Ending::Exited(0));
    let taken = store.retro(["unpack", "sh-1.retro", "-o", "here"]);
    assert_eq!(taken.status, Ending::Exited(1));
    assert!(text(&taken.stderr).contains("here exists already"), "{}", text(&taken.stderr));
}

#[test]
fn a_pack_says_what_it_lacks() {
    let store = Store::new("record-lacking");
    let program = store.compile("gone", "int main(void) { return 0; }\n");
    assert_eq!(store.record(&[&program]).status, Ending::Exited(0));
    fs::remove_file(&program).unwrap();
    let packed = store.retro(["pack", "-o", "gone.pack"]);
    assert_eq!(packed.status, Ending::Exited(0));
    let stderr = text(&packed.stderr);
    assert!(stderr.contains(&format!("left out {program}: No such file")), "{stderr}");
    let unpacked = store.retro(["unpack", "gone.pack"]);
    assert!(text(&unpacked.stderr).contains(&format!("left out {program}")));
}

#[test]
fn closed_pipes_end_quietly() {
    let store = Store::new("record-pipes");
    let script = r#""$retro" record -q -- seq 1 10000000 | head -n 1; echo "${PIPESTATUS[0]}""#;
    let outcome = store.bash(script);
    assert_eq!((text(&outcome.stdout), text(&outcome.stderr)), ("1\n141\n".into(), String::new()));
    for command in ["dump", "dump --json", "info", "info --json", "ls", "pack -o p.retro"] {
        let script =
            format!(r#"(sleep 0.2; exec "$retro" {command}) | true; echo "${{PIPESTATUS[0]}}""#);
        let outcome = store.bash(&script);
        let stderr = text(&outcome.stderr);
        assert_eq!(text(&outcome.stdout), "0\n", "{command}: {stderr}");
        assert!(!stderr.contains("pipe") && !stderr.contains("panic"), "{command}: {stderr}");
    }
    // Nobody reads the summary.
    let script = r#"(sleep 0.2; exec "$retro" record -- sh -c 'exit 5') 2>&1 | true; echo "${PIPESTATUS[0]}""#;
    assert_eq!(text(&store.bash(script).stdout), "5\n");
}

#[test]
fn closed_standard_descriptors_stay_the_program_s() {
    let store = Store::new("record-closed");
    let script = r#""$retro" record -q -- sh -c 'echo lost; ls /proc/self/fd | wc -l >&2' <&- >&-"#;
    let recorded = store.bash(script);
    let native = store.bash(r"sh -c 'echo lost; ls /proc/self/fd | wc -l >&2' <&- >&-");
    assert_eq!((recorded.status, text(&recorded.stderr)), (native.status, text(&native.stderr)));
}

#[test]
fn a_seed_is_picked_shown_and_kept() {
    let store = Store::new("record-chaos");
    let outcome = store.retro(["record", "--chaos", "--", "/bin/true"]);
    let stderr = text(&outcome.stderr);
    let seed: u64 = match stderr.trim_end().rsplit_once(", chaos seed ") {
        Some((_, seed)) => seed.parse().unwrap(),
        None => panic!("no seed in {stderr}"),
    };
    assert_eq!(store.json(["info", "--json"])["options"]["chaos_seed"], seed);
    let line = ["record", "-q", "--chaos", "42", "--interval", "20k", "--", "sh", "-c", "exit 6"];
    let outcome = store.retro(line);
    assert_eq!((outcome.status, text(&outcome.stderr)), (Ending::Exited(6), String::new()));
    let info = store.json(["info", "--json"]);
    let options = &info["options"];
    assert_eq!((&options["chaos_seed"], &options["interval"]), (&42.into(), &20_000.into()));
    assert_eq!(options["follow"], true);
    assert!(info["intervals"].as_u64() > Some(5), "{info}");
    let text = store.output(["info"]);
    assert!(text.contains("intervals of 20,000 instructions, chaos seed 42\n"), "{text}");
}

#[test]
fn children_can_be_left_alone() {
    let store = Store::new("record-alone");
    let script = "(echo copy); /bin/echo program; (exit 2); exit $?";
    let line = ["record", "-q", "--no-follow", "--", "bash", "-c", script];
    let outcome = store.retro(line);
    assert_eq!((outcome.status, text(&outcome.stderr)), (Ending::Exited(2), String::new()));
    assert_eq!(text(&outcome.stdout), "copy\nprogram\n");
    let info = store.json(["info", "--json"]);
    assert_eq!(info["options"]["follow"], false);
    assert_eq!(info["processes"].as_array().map(Vec::len), Some(1), "{info}");
    assert!(store.output(["info"]).contains("children not recorded"));
    assert!(store.output(["dump"]).contains(", not recorded"));
}

#[test]
fn the_tree_of_processes_is_shown() {
    let store = Store::new("record-tree");
    let outcome = store.record(&["bash", "-c", "(exit 4); /bin/true; exec /bin/echo end"]);
    assert_eq!((outcome.status, text(&outcome.stdout)), (Ending::Exited(0), "end\n".into()));
    let info = store.json(["info", "--json"]);
    let processes = info["processes"].as_array().unwrap();
    let find = |program: &str, origin: &str| {
        let found = processes.iter().find(|process| {
            process["program"].as_str().unwrap().ends_with(program) && process["origin"] == origin
        });
        found.unwrap_or_else(|| panic!("no {program} by {origin} in {info}"))
    };
    let first = find("/bash", "first");
    assert_eq!(
        (&first["parent"], &first["ended"]),
        (&().into(), &"executed another program".into())
    );
    let last = find("/echo", "exec");
    assert_eq!((&last["parent"], &last["pid"]), (&first["log"], &first["pid"]));
    assert_eq!(last["arguments"], serde_json::json!(["/bin/echo", "end"]));
    let copy = find("/bash", "fork");
    assert_eq!((&copy["parent"], &copy["exit_status"]), (&first["log"], &4.into()));
    let total: u64 =
        processes.iter().map(|process| process["instructions"].as_u64().unwrap()).sum();
    assert_eq!(info["instructions"], total);
    assert!(info["syscalls"]["write"].as_u64() >= Some(1), "{info}");
    assert!(store.output(["info"]).contains("(executed) /bin/echo end"));
}

#[test]
fn what_is_left_in_the_background_is_still_recorded() {
    let store = Store::new("record-background");
    let script = "sleep 60 > /dev/null 2>&1 < /dev/null & exit 2";
    let outcome = store.retro(["record", "--", "sh", "-c", script]);
    let stderr = text(&outcome.stderr);
    assert_eq!(outcome.status, Ending::Exited(2), "{stderr}");
    assert!(stderr.contains("1 background process is still being recorded"), "{stderr}");
    // The end of the test's process group ends the sleeper, and the recorder finishes alone.
    wait_until(|| store.json(["info", "--json"])["state"] == "finished");
    let info = store.json(["info", "--json", "--check"]);
    assert_eq!(info["exit_status"], 2, "{info}");
    let sleeper = &info["processes"].as_array().unwrap().last().unwrap();
    assert_eq!(sleeper["arguments"], serde_json::json!(["sleep", "60"]), "{info}");
}

#[test]
fn a_running_recording_can_be_looked_at_and_not_removed() {
    let store = Store::new("record-running");
    let mut command = store.command(retro_path());
    command.args(["record", "--", "sleep", "60"]).stderr(Stdio::null()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_until(|| store.json(["ls", "--json"])[0]["state"] == "running");
    assert!(store.output(["ls"]).contains("still being recorded"));
    assert_eq!(store.json(["info", "--json"])["state"], "running");
    let removed = store.retro(["rm", "sleep-1"]);
    assert_eq!(removed.status, Ending::Exited(1));
    assert!(text(&removed.stderr).contains("still being recorded"), "{}", text(&removed.stderr));
    // SAFETY: `kill` touches no memory, and the child is not reaped yet.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM));
    wait_until(|| store.json(["info", "--json"])["state"] == "finished");
    assert_eq!(store.json(["info", "--json"])["signal"], libc::SIGTERM);
}

#[test]
fn a_killed_recorder_is_told_and_leaves_what_it_wrote() {
    let store = Store::new("record-killed");
    // The recorder has the same parent as the program, which does not look like it.
    let script = "for supervisor in $(cat /proc/$PPID/task/*/children); do
            siblings=$(cat /proc/$supervisor/task/*/children)
            case \" $siblings \" in *\" $$ \"*) ;; *) continue ;; esac
            for pid in $siblings; do
                test \"$(cat /proc/$pid/comm)\" = retro-recorder && kill -9 $pid
            done
        done
        sleep 0.3; /bin/echo after; exit 4";
    let outcome = store.retro(["record", "--quiet", "--", "bash", "-c", script]);
    let stderr = text(&outcome.stderr);
    assert_eq!((outcome.status, text(&outcome.stdout)), (Ending::Exited(4), "after\n".into()));
    assert!(stderr.starts_with("retro: the recorder ") && stderr.contains("bash-1"), "{stderr}");
    assert!(stderr.ends_with("the program exited with status 4\n"), "{stderr}");
    let listed = store.json(["ls", "--json"]);
    assert_eq!(listed[0]["state"], "interrupted", "{listed}");
    let info = store.retro(["info"]);
    assert!(text(&info.stdout).contains("the recorder was killed"), "{}", text(&info.stdout));
    let dump = store.retro(["dump"]);
    assert!(!text(&dump.stderr).contains("panic"), "{}", text(&dump.stderr));
    assert_eq!(store.retro(["rm", "bash-1"]).status, Ending::Exited(0));
}

#[track_caller]
fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "it never came true");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn children_that_kill_themselves_end_as_they_do() {
    let store = Store::new("own-death");
    let source = r#"
        #include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        #include <sys/wait.h>

        static void pass(int signal) { (void)signal; }

        static void child(void (*end)(void))
        {
            if (fork() == 0) {
                end();
                _exit(3);
            }
            while (wait(NULL) > 0)
                ;
        }

        static void terminate(void) { raise(SIGTERM); }
        static void end_at_once(void) { kill(getpid(), SIGKILL); }
        static void survive(void)
        {
            signal(SIGTERM, pass);
            raise(SIGTERM);
            sigset_t set;
            sigfillset(&set);
            sigprocmask(SIG_BLOCK, &set, NULL);
            raise(SIGINT);
            raise(SIGCHLD);
        }
        static void be_killed(void)
        {
            survive();
            pause();
        }

        int main(void)
        {
            child(abort);
            child(terminate);
            child(end_at_once);
            child(survive);
            pid_t waiting = fork();
            if (waiting == 0)
                be_killed();
            usleep(200000);
            kill(waiting, SIGKILL);
            while (wait(NULL) > 0)
                ;
            return 0;
        }
    "#;
    let program = store.compile("ends", source);
    store.output(["record", "--quiet", "--no-index", "--", &program]);
    let info = store.json(["info", "--json"]);
    let processes = info["processes"].as_array().unwrap();
    let ends: Vec<&str> = processes.iter().map(|one| one["ended"].as_str().unwrap()).collect();
    assert_eq!(
        ends,
        [
            "exited with status 0",
            "killed by SIGABRT",
            "killed by SIGTERM",
            "killed by SIGKILL",
            "exited with status 3",
            "killed by SIGKILL"
        ]
    );
    store.output(["verify"]);
}
