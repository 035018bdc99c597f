//! Waiting for descriptors.

use libc::{
    SYS_clock_nanosleep, SYS_epoll_pwait, SYS_epoll_wait, SYS_nanosleep, SYS_poll, SYS_ppoll,
    SYS_pselect6, SYS_select,
};
use std::os::fd::OwnedFd;

use crate::arena::{
    SET_SIZE, check, descriptor_set, interrupted, number, owned, raw, send, sockets,
};

#[test]
fn waiting_for_descriptors() {
    check(|arena| {
        let (one, two) = sockets(libc::SOCK_STREAM);
        send(&one, b"x");
        let entry = |fd: &OwnedFd| number(fd) | (libc::POLLIN as u64) << 32 | 0xffff << 48;
        let polled = arena.put_words(&[entry(&one), entry(&two)]);
        arena.succeeds(SYS_poll, [polled, 2, 0]);
        let time = arena.put_words(&[5, 0]);
        let answer = arena.succeeds(SYS_ppoll, [polled, 2, time, 0, 8]);
        assert_eq!(answer.ranges, [(time, 16), (polled, 16)]);

        let count = number(&one).max(number(&two)) + 1;
        let [read, write, except] = [(); 3].map(|()| arena.put_words(&descriptor_set(&two)));
        let set_bytes = count.div_ceil(64) * 8;
        let answer = arena.succeeds(SYS_select, [count, read, write, except, time]);
        let sets = [read, write, except].map(|set| (set, set_bytes));
        assert_eq!(answer.ranges, [&[(time, 16)], &sets[..]].concat());
        arena.succeeds(SYS_pselect6, [count, read, 0, 0, time, 0]);
        // Says how much time is left although it fails.
        arena.fails(SYS_select, [u64::MAX, read, 0, 0, time], libc::EINVAL);

        let epoll = owned(raw(libc::SYS_epoll_create1, &[0; 6]));
        let event = arena.put_words(&[u64::from(libc::EPOLLIN as u32) | 1 << 32, 0]);
        let add = [number(&epoll), libc::EPOLL_CTL_ADD as u64, number(&two), event];
        arena.succeeds(libc::SYS_epoll_ctl, add);
        let events = arena.take(48);
        let answer = arena.succeeds(SYS_epoll_wait, [number(&epoll), events, 4, 100]);
        assert_eq!(answer.ranges, [(events, 12)]);
        let again = arena.take(48);
        arena.succeeds(SYS_epoll_pwait, [number(&epoll), again, 4, 100, 0, 8]);
    });
}

#[test]
fn interrupted_waiting() {
    check(|arena| {
        let (one, _two) = sockets(libc::SOCK_STREAM);
        let polled = arena.put_words(&[number(&one) | (libc::POLLIN as u64) << 32 | 0xffff << 48]);
        let time = arena.put_words(&[60, 0]);
        let left = arena.take(16);
        let set = arena.put_words(&descriptor_set(&one));
        interrupted(|| {
            let answer = arena.fails(SYS_poll, [polled, 1, 60_000], libc::EINTR);
            assert_eq!(answer.ranges, [(polled, 8)]);
            arena.set(polled, &(number(&one) | 0xffff << 48).to_le_bytes());
            arena.fails(SYS_ppoll, [polled, 1, time, 0, 8], libc::EINTR);
            arena.fails(SYS_select, [SET_SIZE, set, 0, 0, time], libc::EINTR);
            arena.fails(SYS_pselect6, [SET_SIZE, set, 0, 0, time, 0], libc::EINTR);
            let answer = arena.fails(SYS_nanosleep, [time, left], libc::EINTR);
            assert_eq!(answer.ranges, [(left, 16)]);
            let relative = [libc::CLOCK_MONOTONIC as u64, 0, time, left];
            assert_eq!(
                arena.fails(SYS_clock_nanosleep, relative, libc::EINTR).ranges,
                [(left, 16)]
            );
            arena.set(time, &(u64::MAX >> 8).to_le_bytes());
            let absolute = [libc::CLOCK_MONOTONIC as u64, 1, time, left];
            assert_eq!(arena.fails(SYS_clock_nanosleep, absolute, libc::EINTR).ranges, []);
        });
    });
}
