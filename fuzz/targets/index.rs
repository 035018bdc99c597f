//! An index that is built from what a process says, and opened again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use retro_fuzz::{Input, recording};
use retro_index::Volume;
use retro_index::build::{self, Options, Unwatched};
use retro_index::coverage;
use retro_recording::Directory;
use retro_replayer::fuzzing;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let window_size = 1 + u64::from(input.byte()) * 20;
    let replayer = fuzzing::replayer(recording(), input.script());
    let place = tempfile::tempdir().expect("a directory");
    let index = Directory::open(place.path()).expect("a directory");
    let options = Options { window_size, reads: false, workers: 1 };
    let jobs = coverage::closed_intervals(&replayer);
    if build::build(&replayer, &index, &jobs, &options, &Unwatched).is_err() {
        return;
    }
    let volume = Volume::open(&index, 0, 0, 1 << 20).expect("what was built can be opened");
    let volume = volume.expect("it is complete");
    for window in 0..volume.windows.len() {
        let _ = volume.start_of(window);
        let _ = volume.page(0x1000_0000, window);
    }
});
