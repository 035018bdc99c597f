//! Sockets, and what comes through them.

use libc::{
    SYS_accept4, SYS_getpeername, SYS_getsockname, SYS_getsockopt, SYS_recvfrom, SYS_recvmmsg,
    SYS_recvmsg, SYS_sendmmsg, SYS_socketpair,
};

use crate::arena::{check, number, owned, sockets};

#[test]
fn socket_addresses_and_options() {
    check(|arena| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let address = arena.take(128);
        let length = arena.put(&128u32.to_le_bytes());
        let accept = [number(&listener), address, length, 0];
        let answer = arena.succeeds(SYS_accept4, accept);
        assert_eq!(answer.ranges, [(address, 16), (length, 4)]);
        let served = owned(answer.result);
        arena.succeeds(SYS_getsockname, [number(&served), address, length]);
        arena.set(length, &3u32.to_le_bytes());
        arena.succeeds(SYS_getpeername, [number(&client), address, length]);
        for (level, option) in [
            (libc::SOL_SOCKET, libc::SO_RCVBUF),
            (libc::SOL_SOCKET, libc::SO_LINGER),
            (libc::IPPROTO_TCP, libc::TCP_INFO),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
            (libc::IPPROTO_IP, libc::IP_TTL),
        ] {
            arena.set(length, &128u32.to_le_bytes());
            let ask = [number(&client), level as u64, option as u64, address, length];
            arena.succeeds(SYS_getsockopt, ask);
        }
        let pair = arena.take(8);
        arena.succeeds(SYS_socketpair, [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, pair]);
        // Fails after it has written the descriptors that it would have used.
        let kind = libc::SOCK_STREAM as u64;
        arena.fails(SYS_socketpair, [libc::AF_INET as u64, kind, 0, pair], libc::EOPNOTSUPP);
    });
}

#[test]
fn receiving_messages() {
    check(|arena| {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let on = arena.put(&1u32.to_le_bytes());
        let stamp = [libc::SOL_SOCKET as u64, libc::SO_TIMESTAMP as u64];
        arena.succeeds(libc::SYS_setsockopt, [number(&receiver), stamp[0], stamp[1], on, 4]);
        let (buffer, address) = (arena.take(64), arena.take(128));
        let length = arena.put(&128u32.to_le_bytes());

        sender.send(b"datagram").unwrap();
        let answer =
            arena.succeeds(SYS_recvfrom, [number(&receiver), buffer, 64, 0, address, length]);
        assert_eq!(answer.ranges, [(buffer, 8), (address, 16), (length, 4)]);
        sender.send(b"a longer datagram").unwrap();
        let truncating = [number(&receiver), buffer, 4, libc::MSG_TRUNC as u64, 0, 0];
        let answer = arena.succeeds(SYS_recvfrom, truncating);
        assert_eq!((answer.result, answer.ranges), (17, vec![(buffer, 4)]));

        let second = arena.take(64);
        let vectors = arena.put_words(&[buffer, 5, second, 64]);
        let control = arena.take(256);
        let header = arena.put_words(&[address, 128, vectors, 2, control, 256, 0xffff_ffff]);
        sender.send(b"in two pieces").unwrap();
        let answer = arena.succeeds(SYS_recvmsg, [number(&receiver), header, 0]);
        assert!(answer.ranges.contains(&(buffer, 5)) && answer.ranges.contains(&(second, 8)));
        assert!(answer.ranges.iter().any(|&(start, len)| start == control && len > 16));

        let element = [address, 128, vectors, 2, control, 256, 0, 0];
        let plain = [0, 0, vectors, 2, 0, 0, 0, 0];
        let batch = arena.put_words(&[element, plain].concat());
        let time = arena.put_words(&[5, 0]);
        sender.send(b"one of them").unwrap();
        sender.send(b"the other").unwrap();
        let answer = arena.succeeds(SYS_recvmmsg, [number(&receiver), batch, 2, 0, time]);
        assert_eq!(answer.result, 2);

        let answer = arena.succeeds(SYS_sendmmsg, [number(&sender), batch + 64, 1, 0]);
        assert_eq!(answer.ranges, [(batch + 64 + 56, 4)]);
    });
}

#[test]
fn passed_descriptors() {
    check(|arena| {
        let (one, two) = sockets(libc::SOCK_DGRAM);
        let text = arena.put(b"with a descriptor");
        let vectors = arena.put_words(&[text, 17]);
        let rights = (libc::SOL_SOCKET as u64) | (libc::SCM_RIGHTS as u64) << 32;
        let control = arena.put_words(&[20, rights, number(&one)]);
        let header = arena.put_words(&[0, 0, vectors, 1, control, 24, 0]);
        arena.succeeds(libc::SYS_sendmsg, [number(&one), header, 0]);
        let (buffer, room) = (arena.take(64), arena.take(64));
        let vectors = arena.put_words(&[buffer, 64]);
        let header = arena.put_words(&[0, 0, vectors, 1, room, 64, 0]);
        arena.succeeds(SYS_recvmsg, [number(&two), header, 0]);
    });
}
