//! The table itself: every call is in it, and nothing hostile confuses it.

use libc::{SYS_ioctl, SYS_stat};
use retro_engine::record::effects::{Memory, written};

/// Memory in which every byte is the same, and which ends nowhere.
struct Filled(u8);

impl Memory for Filled {
    fn read(&self, _: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(self.0);
        true
    }
}

/// A request that nobody looked at: its number says that it writes 8 bytes, not what they point to.
#[test]
fn encoded_requests_are_reported_but_not_known() {
    let mut ranges = Vec::new();
    let args = [3, 0x8008_ff01, 0x1000, 0, 0, 0];
    let known = written(&Absent, SYS_ioctl as u32, &args, 0, &mut |start, len| {
        ranges.push((start, len));
    });
    assert!(!known);
    assert_eq!(ranges, [(0x1000, 8)]);
}

/// Memory that is not there.
struct Absent;

impl Memory for Absent {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

#[test]
fn every_call_is_listed_or_left_out_on_purpose() {
    let refused = -i64::from(libc::EPERM) as u64;
    let mut unknown = Vec::new();
    for number in 0..600 {
        let mut ranges = 0;
        let args = [1, 0x5401, 0, 0, 0, 0];
        if !written(&Filled(0), number, &args, refused, &mut |_, _| ranges += 1) {
            unknown.extend(retro_abi::syscall_names::name(number.into()));
        }
    }
    assert_eq!(
        unknown,
        [
            "ptrace",
            "quotactl",
            "io_submit",
            "restart_syscall",
            "keyctl",
            "vmsplice",
            "process_vm_writev",
            "bpf",
            "uretprobe",
            "uprobe",
            "io_uring_enter",
            "io_uring_register",
            "quotactl_fd",
        ]
    );
}

#[test]
fn calls_that_do_not_exist_wrote_nothing() {
    let absent = -i64::from(libc::ENOSYS) as u64;
    assert!(written(&Absent, 100_000, &[1; 6], absent, &mut |_, _| panic!("wrote")));
    assert!(!written(&Absent, 100_000, &[1; 6], 0, &mut |_, _| panic!("wrote")));
}

#[test]
fn a_bad_pointer_leaves_it_open_what_was_written() {
    let bad = -i64::from(libc::EFAULT) as u64;
    let [status, close] = [SYS_stat, libc::SYS_close]
        .map(|call| written(&Absent, call as u32, &[1; 6], bad, &mut |_, _| panic!("wrote")));
    assert!(!status);
    assert!(close);
}

#[test]
fn hostile_values_are_survived() {
    let memories: [&dyn Memory; 4] = [&Filled(0), &Filled(0xff), &Filled(0x7f), &Absent];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state % 5 {
            0 => 0,
            1 => u64::MAX - (state >> 40) % 64,
            2 => (state >> 32) % 2048,
            3 => 1 << ((state >> 20) % 64),
            _ => state,
        }
    };
    for number in 0..480 {
        for round in 0..400 {
            let args = [random(), random(), random(), random(), random(), random()];
            let mut ranges = 0u64;
            written(memories[round % 4], number, &args, random(), &mut |start, len| {
                assert!(start != 0 && len != 0 && start.checked_add(len).is_some());
                ranges += 1;
            });
            assert!(ranges <= 1024 * 1030, "call {number} reports without end");
        }
    }
}
