//! gdb as editors drive it: through its machine interface, on a server that was started before.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::clients::Server;
use crate::recorded::{Recorded, has_gdb};

/// A gdb that is spoken to by a program.
struct Interface {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Interface {
    fn start() -> Interface {
        let mut child = Command::new("gdb")
            .args(["-nx", "-q", "--interpreter=mi2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Interface { child, to, from }
    }

    /// The line that begins with some text, from here on.
    fn line(&mut self, begin: &str) -> String {
        for line in self.from.by_ref() {
            let line = line.unwrap();
            assert!(begin == "^error" || !line.starts_with("^error"), "{line}");
            if line.starts_with(begin) {
                return line;
            }
        }
        panic!("gdb ends before it says {begin}");
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.to, "{command}").unwrap();
    }

    fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.line("^done")
    }

    /// Where a command that moves leads to.
    fn go(&mut self, command: &str) -> String {
        self.tell(command);
        self.line("^running");
        self.line("*stopped")
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn assert_has(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
}

#[test]
fn editors_go_both_ways() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::of("crash.c", &["-O0"]);
    let server = Server::start(&recorded);
    let mut gdb = Interface::start();
    gdb.ask("-gdb-set mi-async off");
    gdb.ask(&format!("-file-exec-and-symbols {}", recorded.program().display()));
    gdb.tell(&format!("-target-select remote {}", server.socket.display()));
    let stop = gdb.line("*stopped");
    assert_has(&stop, &["func=\"transfer\"", "line=\"21\""]);
    // An editor shows buttons for going back if the target has this.
    let features = gdb.ask("-list-target-features");
    assert_has(&features, &["reverse"]);
    let frames = gdb.ask("-stack-list-frames");
    assert_has(&frames, &["level=\"0\"", "func=\"transfer\"", "level=\"1\"", "func=\"main\""]);
    assert_has(&gdb.ask("-stack-list-variables --simple-values"), &["name=\"to\"", "value=\"3\""]);
    assert_has(
        &gdb.ask("-break-insert rename_account"),
        &["number=\"1\"", "func=\"rename_account\""],
    );
    let stop = gdb.go("-exec-continue --reverse");
    assert_has(&stop, &["reason=\"breakpoint-hit\"", "func=\"rename_account\"", "line=\"13\""]);
    assert_has(&gdb.go("-exec-next"), &["line=\"14\""]);
    assert_has(&gdb.go("-exec-step --reverse"), &["line=\"13\""]);
    assert_has(&gdb.go("-exec-finish --reverse"), &["func=\"main\"", "line=\"31\""]);
    assert_has(&gdb.go("-exec-next --reverse"), &["func=\"main\""]);
    assert_has(&gdb.go("-exec-step-instruction --reverse"), &["func=\"main\""]);
    let watch = gdb.ask("-break-watch balances[1]");
    assert_has(&watch, &["exp=\"balances[1]\""]);
    let stop = gdb.go("-exec-continue --reverse");
    assert_has(&stop, &["reason=\"watchpoint-trigger\"", "old=", "new=", "func=\"transfer\""]);
    assert_has(&gdb.ask("-data-evaluate-expression from"), &["value="]);
    assert_has(&gdb.ask("-thread-info"), &["name=\"program\"", "state=\"stopped\""]);
    assert_has(&gdb.ask("-data-list-register-values x 16"), &["number=\"16\""]);
    assert_has(&gdb.ask("-var-create - * accounts[0]"), &["numchild=\"2\""]);
    gdb.ask("-break-delete");
    assert_has(&gdb.go("-exec-continue --reverse"), &["func=\"_start\""]);
    assert_has(&gdb.go("-exec-continue"), &["signal-name=\"SIGSEGV\""]);
}

#[test]
fn a_refused_step_in_the_console_is_forgotten() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::of("leave.c", &["-O0"]);
    let server = Server::start(&recorded);
    let mut gdb = Interface::start();
    gdb.ask("-gdb-set mi-async off");
    gdb.ask("-gdb-set remotetimeout 60");
    gdb.ask(&format!("-file-exec-and-symbols {}", recorded.program().display()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gdbserver/python/retro.py");
    gdb.ask(&format!("-interpreter-exec console \"source {}\"", script.display()));
    gdb.tell(&format!("-target-select remote {}", server.socket.display()));
    gdb.line("*stopped");
    gdb.ask("-break-insert -t -c \"n == 4\" leave.c:10");
    assert_has(&gdb.go("-exec-continue --reverse"), &["depth_of", "line=\"10\""]);
    gdb.tell("-interpreter-exec console \"next no_such_variable\"");
    gdb.line("^error");
    gdb.ask("-break-insert *depth_of");
    gdb.go("-exec-continue --reverse");
    // The innermost call, not that of the frame in which the view stood.
    assert_has(&gdb.ask("-data-evaluate-expression $edi"), &["value=\"0\""]);
}
