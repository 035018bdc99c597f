//! How programs and recordings end, in words.

use retro_abi::channel::Unrecorded;
use retro_abi::signal_names;
use retro_recorder::Ending;
use retro_recording::{ProcessEnd, Recording, RunOutcome, State};

/// A signal by its name, or by its number if it has none.
pub fn signal(number: u32) -> String {
    signal_names::name(number).map_or_else(|| format!("signal {number}"), str::to_string)
}

/// How the program that was waited for ended.
pub fn ending(ending: Ending, core_dumped: bool) -> String {
    match ending {
        Ending::Exited(status) => format!("exited with status {status}"),
        Ending::Killed(number) => {
            let core = if core_dumped { " (core dumped)" } else { "" };
            format!("killed by {}{core}", signal(number.cast_unsigned()))
        }
    }
}

/// How a recorded process ended.
pub fn process_end(end: ProcessEnd) -> String {
    match end {
        ProcessEnd::Unknown => "unknown".to_string(),
        ProcessEnd::Exited(status) => format!("exited with status {status}"),
        ProcessEnd::Signalled(number) => format!("killed by {}", signal(number)),
        ProcessEnd::Executed => "executed another program".to_string(),
        ProcessEnd::Stopped => "went on unrecorded".to_string(),
    }
}

/// Why processes ran unrecorded.
pub fn unrecorded(why: Unrecorded) -> &'static str {
    match why {
        Unrecorded::TooMany => "too many ran at once",
        Unrecorded::Stopped => "recording had stopped before",
        Unrecorded::NoMemory => {
            "no memory for recording; check `ulimit -v` and vm.overcommit_memory"
        }
        Unrecorded::Unreachable => "no access to the recorder: another user, or no /proc",
    }
}

/// How a whole recording ended.
pub fn recording_end(recording: &Recording) -> String {
    let Some(end) = recording.end() else {
        return match recording.state() {
            State::Running => "still being recorded".to_string(),
            _ => "unknown: the recorder was killed".to_string(),
        };
    };
    match end.outcome {
        RunOutcome::Unknown => "unknown: retro was killed".to_string(),
        RunOutcome::Exited(status) => format!("exited with status {status}"),
        RunOutcome::Signalled(number) => format!("killed by {}", signal(number)),
    }
}

/// The name of a state.
pub fn state(state: State) -> &'static str {
    match state {
        State::Finished => "finished",
        State::Running => "running",
        State::Interrupted => "interrupted",
    }
}
