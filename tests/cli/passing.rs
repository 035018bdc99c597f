//! What passes through `retro`: exit statuses, standard streams, environment, working directory,
//! descriptors, signal dispositions and masks.

use std::fs::File;
use std::io::Write;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr;

use retro_testkit::compare::{Ending, Outcome, assert_same, run};
use retro_testkit::programs::scratch::Scratch;

use crate::{MODES, TIMEOUT, bash, retro_path, text};

/// Runs `command` natively, then in all modes, each time set up by `prepare`; all must look alike.
fn check(command: &[&str], prepare: impl Fn(&mut Command)) -> Outcome {
    // First, since it changes the environment that all of them inherit.
    let retro = retro_path();
    let mut native = Command::new(command[0]);
    native.args(&command[1..]);
    prepare(&mut native);
    let native = run(&mut native, TIMEOUT);
    for mode in MODES {
        let mut translated = Command::new(retro);
        translated.args(mode);
        let place = Scratch::new("passing");
        if mode.contains(&"record") {
            // There need not be a variable that says where recordings go.
            translated.arg("-o").arg(place.path());
        }
        translated.arg("--").args(command);
        prepare(&mut translated);
        let mut outcome = run(&mut translated, TIMEOUT);
        if mode.contains(&"--stats=json") {
            without_counters(&mut outcome);
        }
        assert_same(&native, &outcome);
    }
    native
}

/// Cuts off the line that `--stats=json` adds.
fn without_counters(outcome: &mut Outcome) {
    let stderr = text(&outcome.stderr);
    let start = stderr.rfind("{\"guest_instructions\"").expect("counters are printed");
    outcome.stderr.truncate(start);
}

#[test]
fn exit_statuses() {
    for (script, status) in [("true", 0), ("exit 3", 3), ("exit 255", 255), ("exit 256", 0)] {
        let outcome = check(&["bash", "-c", script], |_| {});
        assert_eq!(outcome.status, Ending::Exited(status), "{script}");
    }
}

#[test]
fn killing_signals() {
    for (name, number) in
        [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("ABRT", 6), ("PIPE", 13), ("USR1", 10)]
    {
        let outcome = check(&["bash", "-c", &format!("kill -{name} $$")], |_| {});
        assert_eq!(outcome.status, Ending::Signaled(number), "{name}");
    }
    let outcome = check(&["bash", "-c", "kill -RTMIN+3 $$"], |_| {});
    assert!(matches!(outcome.status, Ending::Signaled(37)));
}

#[test]
fn a_real_fault() {
    let outcome = check(&["perl", "-e", "unpack 'p', pack 'Q', 8"], |_| {});
    assert_eq!(outcome.status, Ending::Signaled(libc::SIGSEGV));
}

#[test]
fn standard_streams() {
    let scratch = Scratch::new("streams");
    let path = scratch.path().join("input");
    let mut input = File::create(&path).unwrap();
    for line in 0..20_000 {
        writeln!(input, "line {line}").unwrap();
    }
    let script = "read first; echo \"$first\"; tee /dev/stderr | sha256sum";
    check(&["bash", "-c", script], |command| {
        command.stdin(File::open(&path).unwrap());
    });
}

#[test]
fn closed_standard_streams() {
    let script = "for fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && echo $fd open; done >&2";
    check(&["bash", "-c", script], |command| {
        // SAFETY: only calls `close`, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::close(0);
                libc::close(1);
                Ok(())
            })
        };
    });
}

#[test]
fn a_reader_that_goes_away() {
    let script =
        format!("{} run -- yes | head -n 1; echo ${{PIPESTATUS[*]}}", retro_path().display());
    let outcome = run(Command::new("bash").args(["-c", &script]), TIMEOUT);
    assert_eq!(text(&outcome.stdout), "y\n141 0\n");
}

#[test]
fn the_environment_byte_for_byte() {
    let outcome = check(&["env"], |command| {
        command.env_clear().env("PATH", "/usr/bin:/bin").env("EMPTY", "").env("A", "x=y\nz\u{fc}");
    });
    assert!(!text(&outcome.stdout).contains("RETRO"));
    check(&["/usr/bin/env"], |command| {
        command.env_clear();
    });
    // A program started by a guest sees no trace of the engine either.
    check(&["bash", "-c", "env | sort; exec env"], |command| {
        command.env_clear().env("PATH", "/usr/bin:/bin");
    });
}

#[test]
fn arguments_byte_for_byte() {
    let arguments =
        ["perl", "-e", "print map qq([$_]\\n), @ARGV", "", "--stats", "--", "a b", "\u{fc}"];
    check(&arguments, |_| {});
    check(&["sh", "-c", "echo $0 $#"], |_| {});
}

#[test]
fn the_working_directory() {
    let scratch = Scratch::new("directory");
    let outcome = check(&["bash", "-c", "pwd -P; cd /; pwd"], |command| {
        command.current_dir(scratch.path());
    });
    assert!(text(&outcome.stdout).starts_with(scratch.path().to_str().unwrap()));
}

#[test]
fn descriptors() {
    // The descriptor that lists the directory is one of the shell's own.
    check(&["bash", "-c", "exec 7</dev/null; echo /proc/self/fd/*; ls /proc/$$/fd"], |command| {
        command.stdin(Stdio::null());
    });
}

#[test]
fn signal_dispositions_and_mask() {
    let script = "
        use POSIX;
        my $blocked = POSIX::SigSet->new;
        sigprocmask(SIG_BLOCK, POSIX::SigSet->new, $blocked);
        for my $signal (1 .. 31) {
            my $action = POSIX::SigAction->new;
            next unless defined sigaction($signal, undef, $action);
            print qq($signal ), $action->handler, $blocked->ismember($signal) ? qq( blocked\\n) : qq(\\n);
        }";
    let plain = check(&["perl", "-e", script], |_| {});
    assert!(text(&plain.stdout).contains("13 DEFAULT\n"));
    let set = check(&["perl", "-e", script], |command| {
        // SAFETY: the closure only makes system calls that are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                for ignored in [libc::SIGPIPE, libc::SIGHUP, libc::SIGTTOU] {
                    libc::signal(ignored, libc::SIG_IGN);
                }
                let mut set: libc::sigset_t = mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGUSR1);
                libc::sigaddset(&mut set, libc::SIGINT);
                libc::sigprocmask(libc::SIG_SETMASK, &set, ptr::null_mut());
                Ok(())
            })
        };
    });
    let stdout = text(&set.stdout);
    for line in ["1 IGNORE\n", "13 IGNORE\n", "22 IGNORE\n", "2 DEFAULT blocked\n"] {
        assert!(stdout.contains(line), "{line:?} is missing in {stdout}");
    }
}

#[test]
fn process_identity() {
    // In place: the process that was started *is* the guest, as a shell's `exec` would do it.
    let script = format!("echo $$; exec {} run -- bash -c 'echo $$ $PPID'", retro_path().display());
    let outcome = run(Command::new("bash").args(["-c", &script]), TIMEOUT);
    let stdout = text(&outcome.stdout);
    let numbers: Vec<&str> = stdout.split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1], "{stdout}");
    assert_eq!(numbers[2], std::process::id().to_string());
}

#[test]
fn retro_under_retro_is_refused() {
    let inner = format!("{} run -- echo inner", retro_path().display());
    let outcome = run(&mut bash(MODES[0], &inner), TIMEOUT);
    assert_eq!(outcome.status, Ending::Exited(125));
    let stderr = text(&outcome.stderr);
    assert!(
        stderr.ends_with("retro does not run under retro; leave out the inner one\n"),
        "{stderr}"
    );
}
