//! Calls that are many calls behind one number: `prctl`, `arch_prctl`, `fcntl`, `seccomp`, `syslog` and the
//! control calls of System V IPC.

use super::{FinishedCall, Output, nothing_written_despite};
use core::mem::size_of;
use linux_raw_sys::general as c;
use linux_raw_sys::prctl::*;

/// `comm` with its NUL.
const TASK_NAME: usize = 16;

pub fn prctl(call: &mut FinishedCall) -> bool {
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    match call.narrow(0) {
        PR_GET_NAME => call.bytes(1, TASK_NAME),
        PR_GET_PDEATHSIG
        | PR_GET_UNALIGN
        | PR_GET_FPEMU
        | PR_GET_FPEXC
        | PR_GET_ENDIAN
        | PR_GET_TSC
        | PR_GET_CHILD_SUBREAPER => call.bytes(1, 4),
        PR_GET_TID_ADDRESS | PR_GET_SHADOW_STACK_STATUS => call.bytes(1, 8),
        PR_GET_AUXV => call.output(Output::Counted(1, 2, 1)),
        PR_SET_MM if call.narrow(1) == PR_SET_MM_MAP_SIZE => call.bytes(2, 4),
        PR_SCHED_CORE if call.narrow(1) == PR_SCHED_CORE_GET => call.bytes(4, 8),
        PR_SET_PDEATHSIG
        | PR_GET_DUMPABLE
        | PR_SET_DUMPABLE
        | PR_SET_UNALIGN
        | PR_GET_KEEPCAPS
        | PR_SET_KEEPCAPS
        | PR_SET_FPEMU
        | PR_SET_FPEXC
        | PR_GET_TIMING
        | PR_SET_TIMING
        | PR_SET_NAME
        | PR_SET_ENDIAN
        | PR_GET_SECCOMP
        | PR_SET_SECCOMP
        | PR_CAPBSET_READ
        | PR_CAPBSET_DROP
        | PR_SET_TSC
        | PR_GET_SECUREBITS
        | PR_SET_SECUREBITS
        | PR_SET_TIMERSLACK
        | PR_GET_TIMERSLACK
        | PR_TASK_PERF_EVENTS_DISABLE
        | PR_TASK_PERF_EVENTS_ENABLE
        | PR_MCE_KILL
        | PR_MCE_KILL_GET
        | PR_SET_MM
        | PR_SET_PTRACER
        | PR_SET_CHILD_SUBREAPER
        | PR_SET_NO_NEW_PRIVS
        | PR_GET_NO_NEW_PRIVS
        | PR_SET_THP_DISABLE
        | PR_GET_THP_DISABLE
        | PR_CAP_AMBIENT
        | PR_GET_SPECULATION_CTRL
        | PR_SET_SPECULATION_CTRL
        | PR_SET_IO_FLUSHER
        | PR_GET_IO_FLUSHER
        | PR_SET_SYSCALL_USER_DISPATCH
        | PR_SCHED_CORE
        | PR_SET_MDWE
        | PR_GET_MDWE
        | PR_SET_VMA
        | PR_SET_MEMORY_MERGE
        | PR_GET_MEMORY_MERGE
        | PR_SET_SHADOW_STACK_STATUS
        | PR_LOCK_SHADOW_STACK_STATUS
        | PR_TIMER_CREATE_RESTORE_IDS
        | PR_FUTEX_HASH => true,
        _ => false,
    }
}

pub fn arch_prctl(call: &mut FinishedCall) -> bool {
    const SET_GS: u32 = 0x1001;
    const SET_FS: u32 = 0x1002;
    const GET_FS: u32 = 0x1003;
    const GET_GS: u32 = 0x1004;
    const GET_CPUID: u32 = 0x1011;
    const SET_CPUID: u32 = 0x1012;
    const GET_STATE_COMPONENTS_SUPPORTED: u32 = 0x1021;
    const GET_STATE_COMPONENTS_PERMITTED: u32 = 0x1022;
    const REQUEST_STATE_COMPONENT: u32 = 0x1023;
    const GET_GUEST_STATE_COMPONENTS_PERMITTED: u32 = 0x1024;
    const REQUEST_GUEST_STATE_COMPONENT: u32 = 0x1025;
    const GET_UNTAG_MASK: u32 = 0x4001;
    const ENABLE_TAGGED_ADDRESSES: u32 = 0x4002;
    const GET_MOST_TAG_BITS: u32 = 0x4003;
    const SHADOW_STACK_ENABLE: u32 = 0x5001;
    const SHADOW_STACK_DISABLE: u32 = 0x5002;
    const SHADOW_STACK_LOCK: u32 = 0x5003;
    const SHADOW_STACK_UNLOCK: u32 = 0x5004;
    const SHADOW_STACK_STATUS: u32 = 0x5005;
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    match call.narrow(0) {
        GET_FS
        | GET_GS
        | GET_STATE_COMPONENTS_SUPPORTED
        | GET_STATE_COMPONENTS_PERMITTED
        | GET_GUEST_STATE_COMPONENTS_PERMITTED
        | GET_UNTAG_MASK
        | GET_MOST_TAG_BITS
        | SHADOW_STACK_STATUS => call.bytes(1, 8),
        SET_GS
        | SET_FS
        | GET_CPUID
        | SET_CPUID
        | REQUEST_STATE_COMPONENT
        | REQUEST_GUEST_STATE_COMPONENT
        | ENABLE_TAGGED_ADDRESSES
        | SHADOW_STACK_ENABLE
        | SHADOW_STACK_DISABLE
        | SHADOW_STACK_LOCK
        | SHADOW_STACK_UNLOCK => true,
        _ => false,
    }
}

pub fn fcntl(call: &mut FinishedCall) -> bool {
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    match call.narrow(1) {
        c::F_GETLK | c::F_OFD_GETLK => call.bytes(2, size_of::<c::flock>()),
        c::F_GETOWN_EX => call.bytes(2, size_of::<c::f_owner_ex>()),
        // The real and the effective one.
        c::F_GETOWNER_UIDS => call.bytes(2, 8),
        c::F_GET_RW_HINT | c::F_GET_FILE_RW_HINT => call.bytes(2, 8),
        c::F_DUPFD
        | c::F_GETFD
        | c::F_SETFD
        | c::F_GETFL
        | c::F_SETFL
        | c::F_SETLK
        | c::F_SETLKW
        | c::F_SETOWN
        | c::F_GETOWN
        | c::F_SETSIG
        | c::F_GETSIG
        | c::F_SETOWN_EX
        | c::F_OFD_SETLK
        | c::F_OFD_SETLKW
        | c::F_SETLEASE
        | c::F_GETLEASE
        | c::F_NOTIFY
        | c::F_DUPFD_QUERY
        | c::F_CREATED_QUERY
        | c::F_CANCELLK
        | c::F_DUPFD_CLOEXEC
        | c::F_SETPIPE_SZ
        | c::F_GETPIPE_SZ
        | c::F_ADD_SEALS
        | c::F_GET_SEALS
        | c::F_SET_RW_HINT
        | c::F_SET_FILE_RW_HINT => true,
        _ => false,
    }
}

pub fn seccomp(call: &mut FinishedCall) -> bool {
    const SET_MODE_STRICT: u32 = 0;
    const SET_MODE_FILTER: u32 = 1;
    const GET_ACTION_AVAILABLE: u32 = 2;
    const GET_NOTIFICATION_SIZES: u32 = 3;
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    match call.narrow(0) {
        SET_MODE_STRICT | SET_MODE_FILTER | GET_ACTION_AVAILABLE => true,
        // Three numbers of 16 bits.
        GET_NOTIFICATION_SIZES => call.bytes(2, 6),
        _ => false,
    }
}

pub fn syslog(call: &mut FinishedCall) -> bool {
    const READ: u32 = 2;
    const READ_ALL: u32 = 3;
    const READ_CLEAR: u32 = 4;
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    match call.narrow(0) {
        READ | READ_ALL | READ_CLEAR => call.output(Output::Counted(1, 2, 1)),
        _ => true,
    }
}

/// Commands that message queues, semaphores and shared memory have in common.
mod ipc {
    pub const REMOVE: u32 = 0;
    pub const SET: u32 = 1;
    pub const STATUS: u32 = 2;
    pub const LIMITS: u32 = 3;
}

pub fn msgctl(call: &mut FinishedCall) -> bool {
    const STATUS_BY_INDEX: u32 = 11;
    const USAGE: u32 = 12;
    const STATUS_BY_INDEX_OF_ANY: u32 = 13;
    /// Bytes of `msqid64_ds`.
    const QUEUE: usize = 120;
    /// Bytes of `msginfo`.
    const LIMITS: usize = 32;
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    match call.narrow(1) {
        ipc::STATUS | STATUS_BY_INDEX | STATUS_BY_INDEX_OF_ANY => call.bytes(2, QUEUE),
        ipc::LIMITS | USAGE => call.bytes(2, LIMITS),
        ipc::REMOVE | ipc::SET => true,
        _ => false,
    }
}

pub fn semctl(call: &mut FinishedCall) -> bool {
    const GET_PID: u32 = 11;
    const GET_VALUE: u32 = 12;
    /// Writes as many values as the set has, which nothing here says.
    const GET_ALL: u32 = 13;
    const COUNT_WAITING_FOR_MORE: u32 = 14;
    const COUNT_WAITING_FOR_ZERO: u32 = 15;
    const SET_VALUE: u32 = 16;
    const SET_ALL: u32 = 17;
    const STATUS_BY_INDEX: u32 = 18;
    const USAGE: u32 = 19;
    const STATUS_BY_INDEX_OF_ANY: u32 = 20;
    /// Bytes of `semid64_ds`.
    const SET: usize = 104;
    /// Bytes of `seminfo`.
    const LIMITS: usize = 40;
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    match call.narrow(2) {
        ipc::STATUS | STATUS_BY_INDEX | STATUS_BY_INDEX_OF_ANY => call.bytes(3, SET),
        ipc::LIMITS | USAGE => call.bytes(3, LIMITS),
        GET_ALL => false,
        ipc::REMOVE
        | ipc::SET
        | GET_PID
        | GET_VALUE
        | COUNT_WAITING_FOR_MORE
        | COUNT_WAITING_FOR_ZERO
        | SET_VALUE
        | SET_ALL => true,
        _ => false,
    }
}

pub fn shmctl(call: &mut FinishedCall) -> bool {
    const LOCK: u32 = 11;
    const UNLOCK: u32 = 12;
    const STATUS_BY_INDEX: u32 = 13;
    const USAGE: u32 = 14;
    const STATUS_BY_INDEX_OF_ANY: u32 = 15;
    /// Bytes of `shmid64_ds`.
    const SEGMENT: usize = 112;
    /// Bytes of `shminfo64`.
    const LIMITS: usize = 72;
    /// Bytes of `shm_info`.
    const TOTALS: usize = 48;
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    match call.narrow(1) {
        ipc::STATUS | STATUS_BY_INDEX | STATUS_BY_INDEX_OF_ANY => call.bytes(2, SEGMENT),
        ipc::LIMITS => call.bytes(2, LIMITS),
        USAGE => call.bytes(2, TOTALS),
        ipc::REMOVE | ipc::SET | LOCK | UNLOCK => true,
        _ => false,
    }
}
