//! Real gdb on recorded programs: what it says is compared with transcripts.
//!
//! A transcript (`tests/gdb/transcripts`) begins with the program and how it is compiled, then has commands behind `(gdb)` and
//! what gdb said. What differs between machines is replaced before it is compared: addresses, ids of processes, directories.
//! `RETRO_BLESS=1` writes what gdb says now; look at the difference before you keep it.
//!
//! `RETRO_BINARY=path` tests another `retro`. Tests are left out where there is no gdb.

#[path = "gdb/beginnings.rs"]
mod beginnings;
#[path = "gdb/clients.rs"]
mod clients;
#[path = "gdb/consistency.rs"]
mod consistency;
#[path = "gdb/hints.rs"]
mod hints;
#[path = "gdb/machine_interface.rs"]
mod machine_interface;
#[path = "gdb/recorded.rs"]
mod recorded;
#[path = "gdb/robustness.rs"]
mod robustness;
#[path = "cli/session.rs"]
#[allow(dead_code, reason = "other tests use all of it")]
mod session;
#[path = "gdb/transcript.rs"]
mod transcript;

use transcript::check;

#[test]
fn a_crash_is_traced_back_to_its_cause() {
    check("crash");
}

#[test]
fn steps_go_both_ways() {
    check("steps");
}

#[test]
fn breakpoints_and_watchpoints_stop_both_ways() {
    check("points");
}

#[test]
fn threads_have_names_and_variables_of_their_own() {
    check("threads");
}

#[test]
fn signals_and_system_calls_stop() {
    check("signals");
}

#[test]
fn our_own_commands_move_and_tell() {
    check("commands");
}

#[test]
fn nothing_can_be_changed() {
    check("refusals");
}

#[test]
fn steps_that_are_refused_leave_nothing_behind() {
    check("hints");
}

#[test]
fn containers_are_shown_by_the_librarys_own_printers() {
    check("containers");
}

#[test]
fn steps_over_recursion_take_one_go() {
    check("recursion");
}

#[test]
fn classes_and_exceptions() {
    check("shapes");
}

#[test]
fn rust() {
    check("words");
}

#[test]
fn jumps_recursion_until_and_advance() {
    check("jumps");
}

#[test]
fn libraries_come_and_go() {
    check("library");
}

#[test]
fn code_that_is_made_at_run_time() {
    check("jit");
}

#[test]
fn a_child_of_a_recorded_process() {
    check("family");
}

#[test]
fn values_of_all_types() {
    check("types");
}

#[test]
fn all_threads_at_once() {
    check("everyone");
}

#[test]
fn reads_that_are_in_the_index() {
    check("reads");
}

#[test]
fn a_system_call_that_waits_while_others_run() {
    check("blocked");
}
