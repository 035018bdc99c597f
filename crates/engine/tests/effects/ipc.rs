//! Queues, semaphores, shared memory, locks.

use libc::{
    SYS_fcntl, SYS_mq_getsetattr, SYS_mq_open, SYS_mq_timedreceive, SYS_mq_timedsend, SYS_msgctl,
    SYS_msgget, SYS_msgrcv, SYS_msgsnd, SYS_semctl, SYS_semget, SYS_shmctl, SYS_shmget,
};
use linux_raw_sys::general::F_GETOWN_EX;

use crate::arena::{check, file, number, owned, sockets};

#[test]
fn system_v_ipc() {
    check(|arena| {
        let buffer = arena.take(512);
        let (stat, info, create) = (2, 3, 0o1600);
        let queue = arena.succeeds(SYS_msgget, [0, create]).result as u64;
        let message = arena.put(b"\x07\0\0\0\0\0\0\0message");
        arena.succeeds(SYS_msgsnd, [queue, message, 7, 0]);
        assert_eq!(arena.succeeds(SYS_msgrcv, [queue, buffer, 100]).ranges, [(buffer, 15)]);
        arena.succeeds(SYS_msgctl, [queue, stat, buffer]);
        arena.succeeds(SYS_msgctl, [queue, info, buffer]);
        arena.succeeds(SYS_msgctl, [queue, 12, buffer]);
        arena.succeeds(SYS_msgctl, [queue, 0, 0]);

        let semaphores = arena.succeeds(SYS_semget, [0, 3, create]).result as u64;
        arena.succeeds(SYS_semctl, [semaphores, 0, stat, buffer]);
        arena.succeeds(SYS_semctl, [semaphores, 0, info, buffer]);
        arena.succeeds(SYS_semctl, [semaphores, 0, 19, buffer]);
        arena.succeeds(SYS_semctl, [semaphores, 0, 0]);

        let segment = arena.succeeds(SYS_shmget, [0, 8192, create]).result as u64;
        arena.succeeds(SYS_shmctl, [segment, stat, buffer]);
        arena.succeeds(SYS_shmctl, [segment, info, buffer]);
        arena.succeeds(SYS_shmctl, [segment, 14, buffer]);
        arena.succeeds(SYS_shmctl, [segment, 0, 0]);
    });
}

#[test]
fn posix_message_queues() {
    check(|arena| {
        let name = arena.put_text(&format!("effects-{}", std::process::id()));
        let open = [name, (libc::O_CREAT | libc::O_RDWR) as u64, 0o600, 0];
        let answer = arena.call(SYS_mq_open, open);
        assert!(answer.known);
        if answer.result < 0 {
            eprintln!("no message queues here: {}", answer.result);
            return;
        }
        let queue = owned(answer.result);
        arena.succeeds(libc::SYS_mq_unlink, [name]);
        let (text, priority) = (arena.put(b"hello"), arena.take(4));
        let buffer = arena.take(16 << 10);
        arena.succeeds(SYS_mq_timedsend, [number(&queue), text, 5, 3, 0]);
        let receive = [number(&queue), buffer, 16 << 10, priority, 0];
        let answer = arena.succeeds(SYS_mq_timedreceive, receive);
        assert_eq!(answer.ranges, [(buffer, 5), (priority, 4)]);
        arena.succeeds(SYS_mq_getsetattr, [number(&queue), 0, buffer]);
    });
}

#[test]
fn locks_and_owners() {
    check(|arena| {
        let file = file(b"locked");
        let lock = arena.put_words(&[libc::F_WRLCK as u64, 0, 0, 0]);
        arena.succeeds(SYS_fcntl, [number(&file), libc::F_GETLK as u64, lock]);
        let lock = arena.put_words(&[libc::F_WRLCK as u64, 0, 0, 0]);
        arena.succeeds(SYS_fcntl, [number(&file), libc::F_OFD_GETLK as u64, lock]);
        let (socket, _other) = sockets(libc::SOCK_STREAM);
        let owner = arena.take(8);
        arena.succeeds(SYS_fcntl, [number(&socket), F_GETOWN_EX.into(), owner]);
        assert_eq!(
            arena.succeeds(SYS_fcntl, [number(&file), libc::F_GETFL as u64, owner]).ranges,
            []
        );
    });
}
