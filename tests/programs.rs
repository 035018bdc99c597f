//! Real programs, natively and under `retro`: same output, same status; recorded (`recorded::`) as well, with a
//! recording that is sound and complete.
//!
//! Each test is a script of `tests/programs/`; `retro_testkit::programs` says what a script can be.
//! `RETRO_BINARY=path` tests another `retro`, `RETRO_FULL=1` also runs what takes long.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use retro_testkit::programs::{self, Program, Way, check_python_module};

fn retro() -> PathBuf {
    env::var_os("RETRO_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_retro").into()).into()
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            Program::load(stringify!($name)).check(&retro(), Way::Translated);
        })*

        mod recorded {
            use super::{Program, Way, retro};

            $(#[test]
            fn $name() {
                Program::load(stringify!($name)).check(&retro(), Way::Recorded);
            })*
        }

        /// A script that is forgotten here would never run.
        #[test]
        fn every_script_is_a_test() {
            assert_eq!(programs::names(), [$(stringify!($name)),*]);
        }
    };
}

scripts! {
    bash_jobs
    bash_pipes
    bash_traps
    busybox
    compress
    coreutils
    dash
    debugger
    gcc
    git
    go
    gxx
    java
    java_version
    ls
    make
    node
    node_workers
    openssl
    parsers
    perl
    php
    python
    redis
    redis_tcp
    rust_threads
    rustc
    sort
    sqlite
    static_glibc
    static_musl
    strace
    tar
    text_tools
    tools
    vim
}

macro_rules! python_modules {
    ($($name:ident)*) => {
        /// Modules of Python's own test suite.
        mod python_module {
            use super::{MINUTES, Way, check_python_module, retro};

            $(#[test]
            fn $name() {
                let module = concat!("test_", stringify!($name));
                check_python_module(&retro(), Way::Translated, module, MINUTES);
            })*

            mod recorded {
                use super::*;

                $(#[test]
                fn $name() {
                    if std::env::var_os("RETRO_FULL").is_none_or(|value| value != "1") {
                        eprintln!("skipped: RETRO_FULL=1 runs it");
                        return;
                    }
                    let module = concat!("test_", stringify!($name));
                    check_python_module(&retro(), Way::Recorded, module, MINUTES);
                })*
            }
        }
    };
}

/// The longest of them, of signals, sleeps for most of a minute natively.
const MINUTES: Duration = Duration::from_secs(300);

python_modules! {
    ctypes
    dict
    json
    mmap
    re
    signal
    subprocess
    threading
}
