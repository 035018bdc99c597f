//! What a recording can do that has taken over the process that replays it.

use retro_testkit::compare::Ending;

use crate::place::{Place, assert_refused, said};

/// The attack works at all: otherwise the other tests would show nothing.
#[test]
fn a_recording_takes_over_its_replay() {
    let place = Place::new("hello");
    place.hostile("hello", &[]);
    let outcome = place.retro(&["verify", "recording"]);
    assert_refused(&outcome, &["taken over", "it exited with status 7"]);
    place.assert_unharmed();
}
