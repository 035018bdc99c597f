//! `retro` in the foreground of a terminal: Ctrl-C, Ctrl-Z, `fg`, `bg`, and a changed size.

use std::process::Command;

use crate::session::Session;
use crate::{MODES, perl, retro_path};

/// An interactive shell, running natively, as the user has it.
fn shell() -> Session {
    let mut command = Command::new("bash");
    command.args(["--norc", "--noprofile", "--noediting", "-i"]);
    command.env("PS1", "").env("HISTFILE", "/dev/null");
    let mut session = Session::on_terminal(&mut command);
    // Without echo the output has only what programs print.
    session.type_in("stty -echo; PS1=; echo shell''ready\n");
    session.expect("shellready\r\n");
    session
}

fn retro_line(mode: &[&str], command: &str) -> String {
    format!("{} {} -- {command}", retro_path().display(), mode.join(" "))
}

#[test]
fn control_c_interrupts() {
    for mode in MODES {
        let mut session = shell();
        let line = retro_line(mode, "perl -e '$| = 1; print qq(started\n); sleep 60'");
        session.type_in(&format!("{line}; echo status $?\n"));
        session.expect("started\r\n");
        session.type_in("\x03");
        // A shell gives up the rest of the line, so the status is asked for again.
        session.type_in("echo status $?\n");
        session.expect("status 130\r\n");
    }
}

#[test]
fn control_c_reaches_a_handler_once() {
    for mode in MODES {
        let script = "
            $SIG{INT} = sub { print qq(int\n) };
            $SIG{QUIT} = sub { print qq(quit\n) };
            $SIG{TERM} = sub { exit 4 };
            print qq(ready\n); select undef, undef, undef, 0.02 while 1";
        let mut session = Session::on_terminal(&mut perl(mode, script));
        session.expect("ready\r\n");
        for _ in 0..3 {
            session.type_in("\x03");
            session.expect("int\r\n");
        }
        session.type_in("\x1c");
        let rest = session.expect("quit\r\n");
        assert!(!rest.contains("int"), "{rest:?}");
        // What a session's leader prints right before its end can be lost in the hang-up.
        session.signal(libc::SIGTERM);
        assert_eq!(libc::WEXITSTATUS(session.wait()), 4);
    }
}

#[test]
fn a_new_size_is_told_once() {
    for mode in MODES {
        let script = "
            $SIG{WINCH} = sub { print 'size ', `stty size` };
            $SIG{TERM} = sub { exit 0 };
            print qq(ready\n); select undef, undef, undef, 0.02 while 1";
        let mut session = Session::on_terminal(&mut perl(mode, script));
        session.expect("ready\r\n");
        session.resize(40, 100);
        session.expect("size 40 100\r\n");
        session.resize(50, 120);
        let between = session.expect("size 50 120\r\n");
        assert_eq!(between, "");
        session.signal(libc::SIGTERM);
        assert_eq!(libc::WEXITSTATUS(session.wait()), 0);
    }
}

#[test]
fn job_control() {
    for mode in MODES {
        let mut session = shell();
        let command = "perl -e '$| = 1; $SIG{CONT} = sub { print qq(continued\\n) }; \
                       print qq(started\\n); select undef, undef, undef, 0.02 while 1'";
        session.type_in(&format!("{}\n", retro_line(mode, command)));
        session.expect("started\r\n");
        for resume in ["fg", "bg"] {
            session.type_in("\x1a");
            session.expect("Stopped");
            session.type_in(&format!("{resume}\n"));
            session.expect("continued\r\n");
        }
        session.type_in("kill %1; wait %1; echo status $?\n");
        let rest = session.expect("status 143\r\n");
        assert!(!rest.contains("continued\r\n"), "{rest:?}");
    }
}

#[test]
fn a_background_reader_is_stopped() {
    for mode in MODES {
        let mut session = shell();
        session.type_in(&format!("{} &\n", retro_line(mode, "cat")));
        session.type_in("sleep 0.5; jobs; echo listed\n");
        let jobs = session.expect("listed\r\n");
        assert!(jobs.contains("Stopped"), "{jobs:?}");
        session.type_in("fg\n");
        session.type_in("to the reader\n\x04");
        session.expect("to the reader\r\n");
        session.type_in("echo status $?\n");
        session.expect("status 0\r\n");
    }
}
