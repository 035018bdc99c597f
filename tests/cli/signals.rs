//! Signals sent to `retro` are the program's, whether `retro` became it or supervises it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::session::Session;
use crate::{MODES, bash, perl};

/// Runs `test` against a perl with `script`, in both modes.
fn check(script: &str, test: impl Fn(&mut Session)) {
    for mode in MODES {
        test(&mut Session::with_pipe(&mut perl(mode, script)));
    }
}

#[test]
fn handlers_run_and_decide_the_status() {
    let script = "
        $SIG{$_} = sub { print lc shift, qq(\n) } for qw(USR1 HUP WINCH);
        $SIG{TERM} = sub { print qq(term\n); exit 5 };
        print qq(ready\n); select undef, undef, undef, 0.02 while 1";
    check(script, |session| {
        session.expect("ready\n");
        for (signal, reply) in [
            (libc::SIGUSR1, "usr1\n"),
            (libc::SIGHUP, "hup\n"),
            (libc::SIGWINCH, "winch\n"),
            (libc::SIGUSR1, "usr1\n"),
        ] {
            session.signal(signal);
            assert_eq!(session.expect(reply), "");
        }
        session.signal(libc::SIGTERM);
        session.expect("term\n");
        let status = session.wait();
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 5, "{status:#x}");
    });
}

#[test]
fn default_actions_kill() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGUSR2, libc::SIGRTMIN() + 2]
    {
        check("print qq(ready\n); sleep 60", |session| {
            session.expect("ready\n");
            session.signal(signal);
            let status = session.wait();
            assert!(libc::WIFSIGNALED(status), "{status:#x}");
            assert_eq!(libc::WTERMSIG(status), signal);
        });
    }
}

#[test]
fn killing_retro_kills_the_program() {
    check("print qq(pid $$ end\n); sleep 60", |session| {
        session.expect("pid ");
        let pid = session.expect(" end\n");
        session.signal(libc::SIGKILL);
        assert_eq!(libc::WTERMSIG(session.wait()), libc::SIGKILL);
        let deadline = Instant::now() + Duration::from_secs(10);
        while Path::new("/proc").join(&pid).join("exe").canonicalize().is_ok() {
            assert!(Instant::now() < deadline, "process {pid} is still there");
            thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn stopping_and_continuing() {
    check("print qq(ready\n); kill STOP => $$; print qq(resumed\n); exit 6", |session| {
        session.expect("ready\n");
        let status = session.wait();
        assert!(libc::WIFSTOPPED(status), "{status:#x}");
        assert_eq!(libc::WSTOPSIG(status), libc::SIGSTOP);
        session.signal(libc::SIGCONT);
        session.expect("resumed\n");
        assert_eq!(libc::WEXITSTATUS(session.wait()), 6);
    });
}

#[test]
fn an_ignored_sigchld_loses_no_status() {
    use std::os::unix::process::CommandExt;
    let mut command = bash(MODES[1], "exit 9");
    // SAFETY: `signal` is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        })
    };
    let status = Session::with_pipe(&mut command).wait();
    assert_eq!(libc::WEXITSTATUS(status), 9);
}
