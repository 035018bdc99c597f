//! Real gdb on recorded programs: what it says is compared with transcripts.
//!
//! A transcript (`tests/gdb/transcripts`) begins with the program and how it is compiled, then has commands behind `(gdb)` and
//! what gdb said. What differs between machines is replaced before it is compared: addresses, ids of processes, directories.
//! `RETRO_BLESS=1` writes what gdb says now; look at the difference before you keep it.
//!
//! `RETRO_BINARY=path` tests another `retro`. Tests are left out where there is no gdb.

#[path = "gdb/clients.rs"]
mod clients;
#[path = "gdb/consistency.rs"]
mod consistency;
#[path = "gdb/recorded.rs"]
mod recorded;
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
