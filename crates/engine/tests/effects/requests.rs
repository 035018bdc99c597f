//! `ioctl` and its like.

use libc::SYS_ioctl;
use std::io::Write;

use crate::arena::{check, file, number, owned};

#[test]
fn terminal_requests() {
    check(|arena| {
        let master = std::fs::File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        let buffer = arena.take(128);
        let number_of_slave = arena.take(4);
        let zero = arena.put(&[0; 4]);
        arena.succeeds(SYS_ioctl, [number(&master), libc::TIOCSPTLCK, zero]);
        arena.succeeds(SYS_ioctl, [number(&master), libc::TIOCGPTN, number_of_slave]);
        for request in [
            libc::TCGETS,
            libc::TCGETS2,
            libc::TIOCGWINSZ,
            libc::TIOCOUTQ,
            libc::FIONREAD,
            libc::TIOCGETD,
            libc::TIOCGEXCL,
            0x8004_5439, // TIOCGPTLCK
            0x8004_5438, // TIOCGPKT
            0x5405,      // TCGETA
        ] {
            arena.succeeds(SYS_ioctl, [number(&master), request, buffer]);
        }
        let size = arena.put(&[24, 0, 80, 0, 0, 0, 0, 0]);
        let set = arena.succeeds(SYS_ioctl, [number(&master), libc::TIOCSWINSZ, size]);
        assert_eq!(set.ranges, []);
        arena.fails(SYS_ioctl, [number(&file(b"")), libc::TIOCGWINSZ, buffer], libc::ENOTTY);
    });
}

#[test]
fn requests_to_files_sockets_and_devices() {
    check(|arena| {
        let buffer = arena.take(8192);
        let mut pipe = [0; 2];
        // SAFETY: the array has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let [reader, writer] = pipe.map(|fd| owned(fd.into()));
        arena.succeeds(SYS_ioctl, [number(&reader), libc::FIONREAD, buffer]);
        arena.succeeds(SYS_ioctl, [number(&writer), libc::FIOCLEX, buffer]);

        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let list = arena.take(400);
        let request = arena.put_words(&[400 | 0xffff_ffff << 32, list]);
        let answer = arena.succeeds(SYS_ioctl, [number(&socket), 0x8912, request]);
        assert!(answer.ranges.iter().any(|&(start, len)| start == list && len % 40 == 0));
        for getter in [0x8913, 0x8915, 0x891b, 0x8921, 0x8927, 0x8933, 0x8942, 0x8970] {
            let mut interface = [0x77; 40];
            interface[..16].copy_from_slice(b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
            let interface = arena.put(&interface);
            let answer = arena.call(SYS_ioctl, [number(&socket), getter, interface]);
            assert!(answer.known);
        }

        let path = std::env::temp_dir().join(format!("effects-requests-{}", std::process::id()));
        let mut plain = std::fs::File::create(&path).unwrap();
        plain.write_all(&[1; 20000]).unwrap();
        plain.sync_all().unwrap();
        std::fs::remove_file(&path).unwrap();
        for request in [
            0x8008_6601u64, // FS_IOC_GETFLAGS
            0x8008_7601,    // FS_IOC_GETVERSION
            0x801c_581f,    // FS_IOC_FSGETXATTR
            0x8100_9431,    // FS_IOC_GETFSLABEL
            2,              // FIGETBSZ
            0x5460,         // FIOQSIZE
        ] {
            let answer = arena.call(SYS_ioctl, [number(&plain), request, buffer]);
            assert!(answer.known, "{request:#x}");
        }
        let extents = arena.take(32 + 4 * 56);
        arena.set(extents, &[0; 32]);
        arena.set(extents + 8, &u64::MAX.to_le_bytes());
        arena.set(extents + 24, &4u32.to_le_bytes());
        let answer = arena.call(SYS_ioctl, [number(&plain), 0xc020_660b, extents]);
        assert!(answer.known);

        let random = std::fs::File::open("/dev/urandom").unwrap();
        arena.succeeds(SYS_ioctl, [number(&random), 0x8004_5200, buffer]);
    });
}
