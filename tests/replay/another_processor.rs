//! A recording that another processor has made replays unless it used what this one lacks.

use retro_testkit::compare::{Ending, assert_orderly};

use crate::forged::{Forged, LOOP};
use crate::{Place, text};

/// `v4fmaddps zmm0, zmm4, [rsp]`, which one kind of processor ever had, and `nop`.
const FOUR: &[u8] = &[0x62, 0xf2, 0x5f, 0x48, 0x9a, 0x04, 0x24, 0x90];

const FEATURE: &str = "avx512_4fmaps";

fn forged<'a>(code: &'a [u8], end: u64) -> Option<Forged<'a>> {
    let mut forged = Forged::new(code, end);
    let features = &mut forged.machine.cpu_features;
    if features.iter().any(|name| name == FEATURE) {
        return None;
    }
    features.extend([FEATURE, "a_feature_of_the_future"].map(str::to_owned));
    Some(forged)
}

#[test]
fn features_that_were_not_used_are_not_missed() {
    let Some(forged) = forged(LOOP, 1000) else { return };
    let place = Place::new("processor-unused");
    forged.write(&place.recording());
    let verified = place.retro(&["verify", "recording"]);
    assert_eq!(verified.status, Ending::Exited(0), "{}", text(&verified.stderr));
    assert!(text(&verified.stdout).ends_with("OK\n"));
}

#[test]
fn features_that_were_used_are_named() {
    let Some(forged) = forged(FOUR, 2) else { return };
    let place = Place::new("processor-used");
    forged.write(&place.recording());
    for command in [&["verify", "recording"][..], &["replay", "--trace=blocks", "recording"]] {
        let outcome = place.retro(command);
        assert_orderly(&outcome, FEATURE);
        assert_eq!(outcome.status, Ending::Exited(1));
        assert_eq!(
            text(&outcome.stderr),
            format!(
                "retro: this recording used {FEATURE}, which this processor lacks: replay it on one that has it\n"
            )
        );
        assert_eq!(text(&outcome.stdout), "");
    }
}

/// A bit of the image that no processor has set so far.
#[test]
fn vector_state_that_has_no_place_here() {
    let Some(mut forged) = forged(LOOP, 1000) else { return };
    let amx_is_here = std::fs::read_to_string("/proc/cpuinfo").unwrap().contains("amx_tile");
    if amx_is_here {
        return;
    }
    forged.image[512 + 2] |= 1 << 1;
    let place = Place::new("processor-state");
    forged.write(&place.recording());
    let outcome = place.retro(&["verify", "recording"]);
    assert_eq!(outcome.status, Ending::Exited(1));
    let stderr = text(&outcome.stderr);
    assert!(stderr.contains("used amx_tile, which this processor lacks"), "{stderr}");
}
