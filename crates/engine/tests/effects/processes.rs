//! Processes, time, signals, memory.

use libc::{
    SYS_adjtimex, SYS_arch_prctl, SYS_capget, SYS_clock_getres, SYS_clock_gettime, SYS_clone,
    SYS_clone3, SYS_futex, SYS_get_mempolicy, SYS_get_robust_list, SYS_getcpu, SYS_getgroups,
    SYS_getitimer, SYS_getresgid, SYS_getresuid, SYS_getrlimit, SYS_getrusage, SYS_gettimeofday,
    SYS_mincore, SYS_perf_event_open, SYS_prctl, SYS_prlimit64, SYS_rt_sigaction,
    SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigtimedwait, SYS_sched_getaffinity,
    SYS_sched_getattr, SYS_sched_getparam, SYS_sched_rr_get_interval, SYS_sched_setattr,
    SYS_setitimer, SYS_sigaltstack, SYS_sysfs, SYS_sysinfo, SYS_time, SYS_timer_create,
    SYS_timer_gettime, SYS_timer_settime, SYS_timerfd_gettime, SYS_timerfd_settime, SYS_times,
    SYS_uname, SYS_wait4, SYS_waitid,
};

use crate::arena::{check, number, owned, raw};

#[test]
fn time_and_timers() {
    check(|arena| {
        let (one, two) = (arena.take(256), arena.take(64));
        let clock = libc::CLOCK_MONOTONIC as u64;
        arena.succeeds(SYS_gettimeofday, [one, two]);
        arena.succeeds(SYS_clock_gettime, [clock, one]);
        arena.succeeds(SYS_clock_getres, [clock, one]);
        arena.succeeds(SYS_time, [one]);
        arena.succeeds(SYS_times, [one]);
        let adjust = arena.put(&[0; 208]);
        arena.succeeds(SYS_adjtimex, [adjust]);

        arena.succeeds(SYS_getitimer, [libc::ITIMER_VIRTUAL as u64, one]);
        let interval = arena.put_words(&[0, 0, 1000, 7]);
        arena.succeeds(SYS_setitimer, [libc::ITIMER_VIRTUAL as u64, interval, 0]);
        let off = arena.put_words(&[0; 4]);
        arena.succeeds(SYS_setitimer, [libc::ITIMER_VIRTUAL as u64, off, one]);

        let silent = arena.put_words(&[0, libc::SIGEV_NONE as u64 * (1 << 32), 0, 0, 0, 0, 0, 0]);
        let answer = arena.succeeds(SYS_timer_create, [clock, silent, two]);
        assert_eq!(answer.ranges, [(two, 4)]);
        let timer = arena.number_at(two);
        arena.succeeds(SYS_timer_settime, [timer, 0, interval, one]);
        arena.succeeds(SYS_timer_gettime, [timer, one]);
        arena.succeeds(libc::SYS_timer_delete, [timer]);

        let timer = owned(raw(libc::SYS_timerfd_create, &[clock, 0, 0, 0, 0, 0]));
        arena.succeeds(SYS_timerfd_settime, [number(&timer), 0, interval, one]);
        arena.succeeds(SYS_timerfd_gettime, [number(&timer), one]);
    });
}

#[test]
fn processes_and_limits() {
    check(|arena| {
        let buffer = arena.take(512);
        let (one, two, three) = (arena.take(16), arena.take(16), arena.take(16));
        arena.succeeds(SYS_getrusage, [0, buffer]);
        arena.succeeds(SYS_sysinfo, [buffer]);
        arena.succeeds(SYS_uname, [buffer]);
        arena.succeeds(SYS_getrlimit, [libc::RLIMIT_NOFILE.into(), buffer]);
        arena.succeeds(SYS_prlimit64, [0, libc::RLIMIT_STACK.into(), 0, buffer]);
        arena.succeeds(SYS_getresuid, [one, two, three]);
        let [group, effective, saved] = [(); 3].map(|()| arena.take(16));
        arena.succeeds(SYS_getresgid, [group, effective, saved]);
        arena.succeeds(SYS_getgroups, [100, buffer]);
        assert_eq!(arena.succeeds(SYS_getgroups, [0, buffer]).ranges, []);
        arena.succeeds(SYS_get_robust_list, [0, one, two]);
        arena.succeeds(SYS_getcpu, [one, two, 0]);
        arena.succeeds(SYS_sched_getaffinity, [0, 512, buffer]);
        arena.succeeds(SYS_sched_getparam, [0, one]);
        arena.succeeds(SYS_sched_getattr, [0, buffer, 128, 0]);
        arena.succeeds(SYS_sched_rr_get_interval, [0, one]);
        let too_new = arena.put(&[0xff; 200]);
        arena.set(too_new, &200u32.to_le_bytes());
        arena.fails(SYS_sched_setattr, [0, too_new, 0], libc::E2BIG);
        let too_new = arena.put(&[0xff; 200]);
        arena.set(too_new + 4, &200u32.to_le_bytes());
        let anyone = u64::MAX;
        let refused = arena.call(SYS_perf_event_open, [too_new, 0, anyone, anyone, 0]);
        assert!(refused.result < 0 && refused.known);

        let header = arena.put_words(&[0x2008_0522]);
        arena.succeeds(SYS_capget, [header, buffer]);
        arena.set(header, &0x1998_0330u32.to_le_bytes());
        assert_eq!(arena.succeeds(SYS_capget, [header, buffer]).ranges, [(buffer, 12)]);
        arena.set(header, &1u32.to_le_bytes());
        arena.fails(SYS_capget, [header, buffer], libc::EINVAL);
        arena.set(header, &1u32.to_le_bytes());
        arena.succeeds(SYS_capget, [header, 0]);

        for option in [libc::PR_GET_NAME, libc::PR_GET_PDEATHSIG, libc::PR_GET_TSC] {
            arena.succeeds(SYS_prctl, [option as u64, buffer]);
        }
        arena.succeeds(SYS_prctl, [libc::PR_GET_CHILD_SUBREAPER as u64, buffer]);
        assert_eq!(arena.succeeds(SYS_prctl, [libc::PR_GET_DUMPABLE as u64, buffer]).ranges, []);
        for code in [0x1003, 0x1004] {
            assert_eq!(arena.succeeds(SYS_arch_prctl, [code, buffer]).ranges, [(buffer, 8)]);
        }
        arena.call(SYS_arch_prctl, [0x1022, buffer]);
        let answer = arena.call(SYS_get_mempolicy, [one, buffer, 129, 0, 0]);
        assert!(answer.known);
        arena.call(SYS_sysfs, [2, 0, buffer]);
    });
}

#[test]
fn children() {
    check(|arena| {
        let (id, status, usage) = (arena.take(4), arena.take(4), arena.take(256));
        let info = arena.take(128);
        let flags = (libc::SIGCHLD | libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_SETTID) as u64;
        let child_word = arena.take(4);
        let answer = arena.succeeds(SYS_clone, [flags, 0, id, child_word, 0]);
        assert_eq!(answer.ranges, [(id, 4)]);
        let child = answer.result as u64;
        let wait = [libc::P_PID as u64, child, info, (libc::WEXITED | libc::WNOWAIT) as u64, usage];
        arena.succeeds(SYS_waitid, wait);
        arena.succeeds(SYS_wait4, [child, status, 0, usage]);
        arena.fails(SYS_wait4, [child, status, 0, usage], libc::ECHILD);
        // Clears the structure although it fails.
        arena.fails(SYS_waitid, wait, libc::ECHILD);

        let flags = (libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID) as u64;
        let descriptor = arena.take(4);
        let request = arena.put_words(&[flags, descriptor, 0, id, libc::SIGCHLD as u64, 0, 0, 0]);
        let answer = arena.succeeds(SYS_clone3, [request, 64]);
        assert_eq!(answer.ranges, [(descriptor, 4), (id, 4)]);
        arena.succeeds(SYS_wait4, [answer.result as u64, status, 0, 0]);
    });
}

#[test]
fn signals() {
    check(|arena| {
        let (old, info) = (arena.take(64), arena.take(256));
        arena.succeeds(SYS_rt_sigaction, [libc::SIGWINCH as u64, 0, old, 8]);
        arena.succeeds(SYS_rt_sigaction, [libc::SIGUSR1 as u64, 0, old, 8]);
        let set = arena.put_words(&[1 << (libc::SIGUSR2 - 1)]);
        arena.succeeds(SYS_rt_sigprocmask, [libc::SIG_BLOCK as u64, set, old, 8]);
        // SAFETY: neither call touches memory.
        let (process, thread) = unsafe { (libc::getpid() as u64, libc::gettid() as u64) };
        arena.succeeds(libc::SYS_tgkill, [process, thread, libc::SIGUSR2 as u64]);
        arena.succeeds(SYS_rt_sigpending, [old, 8]);
        assert_eq!(arena.succeeds(SYS_rt_sigtimedwait, [set, info, 0, 8]).ranges, [(info, 128)]);
        let time = arena.put_words(&[0, 0]);
        arena.fails(SYS_rt_sigtimedwait, [set, info, time, 8], libc::EAGAIN);
        arena.succeeds(SYS_sigaltstack, [0, old]);
    });
}

#[test]
fn futexes_that_write() {
    check(|arena| {
        let (one, two) = (arena.put(&[0; 4]), arena.put(&[0; 4]));
        // Sets the second word to 5, comparing it with 0.
        let operation = 5 << 12;
        let wake = [one, libc::FUTEX_WAKE_OP as u64, 1, 1, two, operation];
        assert_eq!(arena.succeeds(SYS_futex, wake).ranges, [(two, 4)]);
        arena.succeeds(SYS_futex, [one, libc::FUTEX_LOCK_PI as u64, 0, 0]);
        arena.fails(SYS_futex, [one, libc::FUTEX_LOCK_PI as u64, 0, 0], libc::EDEADLK);
        arena.succeeds(SYS_futex, [one, libc::FUTEX_UNLOCK_PI as u64, 0, 0]);
        arena.succeeds(SYS_futex, [one, libc::FUTEX_TRYLOCK_PI as u64, 0, 0]);
        assert_eq!(arena.succeeds(SYS_futex, [one, libc::FUTEX_WAKE as u64, 1]).ranges, []);
    });
}

#[test]
fn memory_queries() {
    check(|arena| {
        let vector = arena.take(64);
        let page = arena.base() & !4095;
        let answer = arena.succeeds(SYS_mincore, [page + 4096, 3 * 4096 + 1, vector]);
        assert_eq!(answer.ranges, [(vector, 4)]);
    });
}
