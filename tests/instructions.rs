//! Every instruction of this processor, native against translated, and against recorded (`recorded::`).
//!
//! `RETRO_INSTRUCTION_SEEDS=100` runs more seeds than the default, `RETRO_INSTRUCTION_SEED=7` runs
//! only that one, and `RETRO_BINARY=path` tests another `retro`.

use retro_testkit::instructions::run::Runner;
use retro_testkit::instructions::{Class, Coverage, check};
use std::ops::Range;
use std::path::PathBuf;

fn seeds() -> Range<u64> {
    let variable =
        |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match variable("RETRO_INSTRUCTION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("RETRO_INSTRUCTION_SEEDS").unwrap_or(3),
    }
}

fn retro() -> PathBuf {
    std::env::var_os("RETRO_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_retro").into(), PathBuf::from)
}

fn check_translated(class: Class) {
    if let Err(problems) = check(Runner::Translated(&retro()), class, seeds()) {
        panic!("{problems}");
    }
}

fn check_recorded(class: Class) {
    if let Err(problems) = check(Runner::Recorded(&retro()), class, seeds()) {
        panic!("{problems}");
    }
}

macro_rules! classes {
    ($($name:ident: $class:ident,)*) => {
        $(#[test]
        fn $name() {
            check_translated(Class::$class);
        })*

        mod recorded {
            use super::{Class, check_recorded};

            $(#[test]
            fn $name() {
                check_recorded(Class::$class);
            })*
        }

        #[test]
        fn every_class_is_tested() {
            assert_eq!([$(Class::$class),*], Class::ALL);
        }
    };
}

classes! {
    integer: Integer,
    atomics: Atomics,
    strings: Strings,
    stack: Stack,
    control_flow: ControlFlow,
    x87: X87,
    sse: Sse,
    avx: Avx,
    avx512: Avx512,
    gather: Gather,
    state: State,
    x87_pointers: X87Pointers,
    fs: Fs,
    gs: Gs,
    segment_loads: SegmentLoads,
    system: System,
    far_branches: FarBranches,
    short_branches: ShortBranches,
    mixed: Mixed,
    memory_faults: MemoryFaults,
    float_faults: FloatFaults,
    alignment_faults: AlignmentFaults,
    traps: Traps,
}

#[test]
fn nearly_every_code_is_executed() {
    let coverage = Coverage::measure(0).expect("guests that run");
    println!("{}", coverage.describe());
    assert!(coverage.percentage() >= 95.0, "{}", coverage.describe());
    assert!(coverage.fruitless().is_empty(), "{}", coverage.describe());
}
