//! Every guest of the corpus, run natively and under `retro`, must look the same: translated only, with
//! instrumentation (`counted::`), and recorded (`recorded::`), and the recording must be sound and complete.
//! Those with threads also when the scheduler does its worst (`chaotic::`).
//!
//! One test per guest, so that they run in parallel and a failure has a name. The list is
//! written out because a test's name must be known at compile time; `the_list_is_complete` keeps
//! it equal to the directory. `RETRO_BINARY=path` tests another `retro`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use retro_testkit::compare::{self, Ending, Outcome};
use retro_testkit::corpus::{self, Guest};
use retro_testkit::programs::scratch::Scratch;
use retro_testkit::recordings;

/// Generous: a guest takes well under five seconds natively, but all of them share the machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the engine adds to the guest's code.
#[derive(Clone, Copy)]
enum Instrumentation {
    Nothing,
    /// `--stats` counts instructions and memory accesses in the translated code.
    Counters,
    /// `retro record`, as often as the guest asks for.
    Recording,
    /// `retro record`, with these options.
    RecordingWith(&'static [&'static str]),
}

/// Runs one guest both ways and compares.
fn check(name: &str, instrumentation: Instrumentation) {
    check_each(name, &[instrumentation]);
}

/// Runs one guest natively and in each of these ways, and compares.
fn check_each(name: &str, instrumentations: &[Instrumentation]) {
    let guest = Guest::load(name).unwrap_or_else(|error| panic!("{error:?}"));
    if let Some(missing) = guest.missing() {
        eprintln!("skipped: {name} needs {missing}");
        return;
    }
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
    let mut command = guest.build(&output).unwrap_or_else(|error| panic!("{error:?}"));
    let recordings = Scratch::new(name);
    // Natively, too: the environment is part of what is compared.
    command.env("XDG_DATA_HOME", recordings.path());

    let mut native = run_in_empty_directory(duplicate(&command));
    assert_ending(&guest, &native);
    keep_only(guest.error_text.as_deref(), &mut native);
    if let Some(text) = &guest.error_text {
        assert!(!native.stderr.is_empty(), "`{text}` is not even natively in the errors");
    }
    let mut compare = |mut translated: Outcome| {
        keep_only(guest.error_text.as_deref(), &mut translated);
        compare::assert_same(&native, &translated);
    };
    let number = AtomicU32::new(0);
    let record = |options: &[&str], compare: &mut dyn FnMut(Outcome)| {
        let directory = recordings.path().join(number.fetch_add(1, Ordering::Relaxed).to_string());
        let recorded = compare::recorded(&retro(), &directory, options, &command);
        compare(run_in_empty_directory(recorded));
        recordings::assert_complete(&directory, native.status);
        assert_replays(&directory);
    };
    for instrumentation in instrumentations {
        match instrumentation {
            Instrumentation::Nothing => {
                compare(run_in_empty_directory(compare::under_retro(&retro(), &command)));
            }
            Instrumentation::Counters => compare(run_counted(&command)),
            Instrumentation::Recording => {
                record(&[], &mut compare);
                for options in &guest.records {
                    let options: Vec<&str> = options.iter().map(String::as_str).collect();
                    record(&options, &mut compare);
                }
            }
            Instrumentation::RecordingWith(options) => record(options, &mut compare),
        }
    }
}

/// Every interval of a recording, replayed alone, must be what was recorded.
fn assert_replays(recording: &Path) {
    let output = Command::new(retro()).arg("verify").arg(recording).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The command under test.
fn retro() -> PathBuf {
    std::env::var_os("RETRO_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_retro").into(), PathBuf::from)
}

fn run_counted(command: &Command) -> Outcome {
    let counted = compare::under_retro_with(&retro(), &["--stats=json"], command);
    let mut outcome = run_in_empty_directory(counted);
    remove_report(&mut outcome);
    outcome
}

/// Leaves of the error stream only `text`, if that is all that counts, or nothing if it is not in there.
fn keep_only(text: Option<&str>, outcome: &mut Outcome) {
    let Some(text) = text else { return };
    let found = outcome.stderr.windows(text.len()).any(|part| part == text.as_bytes());
    outcome.stderr = if found { text.into() } else { Vec::new() };
}

/// Takes the counters, one line of JSON behind the guest's own output, off the error stream.
fn remove_report(outcome: &mut Outcome) {
    let text = outcome.stderr.strip_suffix(b"\n").unwrap_or(&outcome.stderr);
    let start = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    if text[start..].starts_with(b"{") {
        outcome.stderr.truncate(start);
    } else if outcome.status != Ending::TimedOut {
        outcome.stderr.extend_from_slice(b"(no report of counters)\n");
    }
}

/// The guest itself must be right before its translation is judged.
fn assert_ending(guest: &Guest, native: &Outcome) {
    assert!(
        native.status == guest.ending,
        "the guest {} does not even work natively: it {}, but its source says it {}\nstdout:\n{}\nstderr:\n{}",
        guest.name,
        compare::describe(native.status),
        compare::describe(guest.ending),
        String::from_utf8_lossy(&native.stdout),
        String::from_utf8_lossy(&native.stderr),
    );
}

fn duplicate(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    for (name, value) in command.get_envs() {
        copy.env(name, value.expect("variables are only set"));
    }
    copy
}

/// Guests write files under relative names; each run starts with none.
fn run_in_empty_directory(mut command: Command) -> Outcome {
    static RUNS: AtomicU32 = AtomicU32::new(0);

    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("guest-run-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the run's directory can be created");
    let outcome = compare::run(command.current_dir(&directory), TIMEOUT);
    // Left behind after a timeout, when something may still be writing there.
    if outcome.status != Ending::TimedOut {
        let _ = std::fs::remove_dir_all(&directory);
    }
    outcome
}

macro_rules! guests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name), Instrumentation::Nothing);
            }
        )*

        mod counted {
            use super::{Instrumentation, check};

            $(
                #[test]
                fn $name() {
                    check(stringify!($name), Instrumentation::Counters);
                }
            )*
        }

        mod recorded {
            use super::{Instrumentation, check};

            $(
                #[test]
                fn $name() {
                    check(stringify!($name), Instrumentation::Recording);
                }
            )*
        }

        #[test]
        fn the_list_is_complete() {
            let listed = [$(stringify!($name)),*].map(str::to_owned).into_iter().collect();
            let present = corpus::names().unwrap();
            assert!(
                present == listed,
                "not in tests/guests.rs: {:?}; not in tests/guests: {:?}",
                present.difference(&listed).collect::<Vec<_>>(),
                listed.difference(&present).collect::<Vec<_>>(),
            );
        }
    };
}

guests! {
    code_data_page
    code_dlopen
    code_dual_mapping
    code_fork
    code_invalidate_threads
    code_jit_many
    code_jit_protect
    code_kernel_writes
    code_on_stack
    code_page_end
    code_patch_by_thread
    code_patch_calls
    code_patch_text
    code_remap
    code_self_modify
    code_shared_page
    code_syscall_edge
    flow_backtrace
    flow_coroutines
    flow_exceptions
    flow_exceptions_signal
    flow_far_transfer
    flow_flags_kept
    flow_fresh_code
    flow_ifunc
    flow_indirect
    flow_long_function
    flow_loops
    flow_many_returns
    flow_overlapping
    flow_plugin
    flow_recursion
    flow_red_zone
    flow_registers_kept
    flow_returns
    flow_setjmp
    flow_switch
    flow_syscall_numbers
    flow_syscall_registers
    flow_virtual
    flow_vsyscall
    insn_addressing
    insn_alignment
    insn_alignment_kept
    insn_amx
    insn_avx2
    insn_avx512
    insn_bits
    insn_cmpxchg
    insn_cpuid
    insn_crypto
    insn_descriptors
    insn_flags
    insn_gather_fault
    insn_gs_threads
    insn_local_segments
    insn_segments
    insn_sse
    insn_stack
    insn_string_fault
    insn_strings
    insn_strings_model
    insn_time
    insn_time_denied
    insn_x87
    insn_x87_intervals
    insn_x87_pointer
    insn_xsave
    insn_xsave_edge
    memory_asan
    memory_asan_overflow
    memory_bad_pointers
    memory_brk
    memory_copy_on_write
    memory_deep_stack
    memory_growsdown
    memory_legacy_layout
    memory_limit
    memory_limit_code
    memory_madvise
    memory_mmap
    memory_moved_late
    memory_mprotect
    memory_mremap
    memory_munmap
    memory_proc_maps
    memory_proc_mem
    memory_proc_self
    memory_proc_smaps
    memory_reserve
    memory_residency
    memory_shared
    memory_stack_limit
    memory_write_barrier
    process_attributes
    process_big_arguments
    process_clone3
    process_clone_signal
    process_descriptors
    process_environment
    process_exec
    process_exec_errors
    process_exec_memfd
    process_exit_handlers
    process_fork
    process_groups
    process_high_descriptors
    process_identity
    process_low_descriptors
    process_namespace_init
    process_orphan
    process_pipeline
    process_proc_child
    process_script
    process_seccomp
    process_seccomp_everything
    process_spawn
    process_system
    process_user_dispatch
    process_vfork
    process_wait
    signal_across_exec
    signal_altstack_nested
    signal_altstack_overflow
    signal_altstack_scope
    signal_async_avx512
    signal_async_registers
    signal_async_vectors
    signal_bad_jump
    signal_bus_file
    signal_child
    signal_default_actions
    signal_eintr
    signal_end_abort
    signal_end_kill
    signal_end_segv
    signal_end_term
    signal_end_thread
    signal_fault_blocked
    signal_flags_in_loop
    signal_forged_return
    signal_fpe_float
    signal_fpe_integer
    signal_frame
    signal_from_outside
    signal_futex
    signal_handler_forks
    signal_handler_fpu
    signal_ill
    signal_io
    signal_longjmp
    signal_masked_waits
    signal_nested
    signal_nodefer
    signal_noncanonical
    signal_page_crossing
    signal_pipe
    signal_privileged
    signal_procmask
    signal_queue_order
    signal_resethand
    signal_restart
    signal_return_mask
    signal_segv_accerr
    signal_segv_maperr
    signal_self_kill
    signal_sigaction
    signal_signalfd
    signal_sigsuspend
    signal_single_step
    signal_single_step_handler
    signal_stop_continue
    signal_storm
    signal_string_interrupt
    signal_switch_context
    signal_tight_loop
    signal_timer_create
    signal_to_process
    signal_to_thread
    signal_trap
    signal_ucontext_flags
    signal_ucontext_modify
    signal_ucontext_registers
    signal_ucontext_xmm
    signal_ucontext_ymm
    signal_wait
    start_bare
    start_bare_dynamic
    start_large
    start_no_pie
    start_order
    start_preload
    start_rust
    start_stack
    start_static
    start_static_pie
    syscall_aio
    syscall_events
    syscall_files
    syscall_io_uring
    syscall_sockets
    thread_atomics
    thread_cancel
    thread_clone_vm
    thread_cond_queue
    thread_create_join
    thread_detached
    thread_exec
    thread_exit_creating
    thread_exit_group
    thread_exit_main
    thread_fault_each
    thread_fork
    thread_fpu_inherit
    thread_futex
    thread_local_cpp
    thread_many
    thread_mutex
    thread_name
    thread_preempt
    thread_raw_clone
    thread_robust_mutex
    thread_rwlock_sem
    thread_setuid
    thread_sixty_four
    thread_sixty_four_locks
    thread_spawn
    thread_spin
    thread_stack
    thread_stop
    thread_tid
    thread_tls
    trace_attach
    trace_events
    trace_filter
    trace_memory
    trace_registers
    trace_seize
    trace_signals
    trace_steps
    trace_syscalls
}

macro_rules! chaotic_guests {
    ($($name:ident)*) => {
        /// Another order of threads for each seed, and the same output for all of them.
        mod chaotic {
            use super::{Instrumentation, check_each};

            $(
                #[test]
                fn $name() {
                    let seeds = [&["--chaos", "1"], &["--chaos", "2"], &["--chaos", "3"]];
                    check_each(stringify!($name), &seeds.map(|seed| Instrumentation::RecordingWith(seed)));
                }
            )*
        }

        #[test]
        fn every_guest_with_threads_meets_chaos() {
            let listed = [$(stringify!($name)),*];
            for name in corpus::names().unwrap() {
                assert!(
                    !name.starts_with("thread_") || listed.contains(&name.as_str()),
                    "{name} is not among the chaotic guests of tests/guests.rs"
                );
            }
        }
    };
}

chaotic_guests! {
    code_invalidate_threads
    code_patch_by_thread
    insn_gs_threads
    signal_end_thread
    signal_futex
    signal_storm
    signal_to_thread
    thread_atomics
    thread_cancel
    thread_clone_vm
    thread_cond_queue
    thread_create_join
    thread_detached
    thread_exec
    thread_exit_creating
    thread_exit_group
    thread_exit_main
    thread_fault_each
    thread_fork
    thread_fpu_inherit
    thread_futex
    thread_local_cpp
    thread_many
    thread_mutex
    thread_name
    thread_preempt
    thread_raw_clone
    thread_robust_mutex
    thread_rwlock_sem
    thread_setuid
    thread_sixty_four
    thread_sixty_four_locks
    thread_spawn
    thread_spin
    thread_stack
    thread_stop
    thread_tid
    thread_tls
}
