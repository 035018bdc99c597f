//! What the server is told of a command that steps must not outlive the command: the user's next breakpoints would be taken for
//! gdb's own, and the next way would end where the refused one was to end.

use std::process::Command;

use crate::recorded::{Recorded, has_gdb, retro};
use crate::session::Session;

const PROMPT: &str = "(gdb) ";

/// A gdb that somebody sits in front of.
struct Terminal(Session);

impl Terminal {
    fn start(recorded: &Recorded) -> Terminal {
        let mut command = Command::new(retro());
        command.arg("gdb").arg(recorded.directory()).args(["--", "-nx", "-q"]);
        for setting in ["set width 0", "set pagination off", "set style enabled off"] {
            command.arg("-ex").arg(setting);
        }
        command.env("TERM", "dumb");
        let mut session = Session::on_terminal(&mut command);
        session.expect(PROMPT);
        Terminal(session)
    }

    /// What a command is answered with up to the next prompt.
    fn ask(&mut self, command: &str) -> String {
        self.0.type_in(&format!("{command}\n"));
        self.0.expect(PROMPT)
    }

    /// The same for a command that asks back and is told no.
    fn decline(&mut self, command: &str) {
        self.0.type_in(&format!("{command}\n"));
        self.0.expect("(y or n) ");
        self.ask("n");
    }
}

/// A gdb that stands in `leave`, with nothing to stop at.
fn in_leave(recorded: &Recorded) -> Terminal {
    let mut gdb = Terminal::start(recorded);
    gdb.ask("tbreak leave");
    let said = gdb.ask("reverse-continue");
    assert!(said.contains("leave (status=0)"), "{said}");
    gdb
}

#[test]
fn a_declined_step_is_forgotten() {
    if !has_gdb() {
        return eprintln!("there is no gdb: nothing is tested");
    }
    let recorded = Recorded::of("leave.c", &["-O0"]);
    let mut gdb = in_leave(&recorded);
    gdb.decline("finish");
    let said = gdb.ask("reverse-continue");
    assert!(said.contains("No more reverse-execution history"), "{said}");
}

#[test]
fn a_refused_step_is_forgotten() {
    if !has_gdb() {
        return eprintln!("there is no gdb: nothing is tested");
    }
    let recorded = Recorded::of("leave.c", &["-O0"]);
    let mut gdb = in_leave(&recorded);
    gdb.ask("tbreak 10 if n == 4");
    gdb.ask("reverse-continue");
    let said = gdb.ask("next no_such_variable");
    assert!(said.contains("No symbol \"no_such_variable\""), "{said}");
    gdb.ask("break *depth_of");
    // The innermost call comes first, and then its callers.
    for n in 0..=4 {
        let said = gdb.ask("reverse-continue");
        assert!(said.contains("Breakpoint 3, depth_of"), "{said}");
        let value = gdb.ask("print $edi");
        assert!(value.contains(&format!("= {n}")), "{n}: {value}");
    }
}

#[test]
fn gdb_does_not_record_what_is_recorded() {
    if !has_gdb() {
        return eprintln!("there is no gdb: nothing is tested");
    }
    let recorded = Recorded::of("leave.c", &["-O0"]);
    let mut gdb = in_leave(&recorded);
    for command in ["record", "rec", "record full", "record btrace", "target record-full"] {
        let said = gdb.ask(command);
        assert!(said.contains("this run is recorded already"), "{command}: {said}");
    }
    let said = gdb.ask("reverse-finish");
    assert!(said.contains("leave(0);"), "{said}");
}
