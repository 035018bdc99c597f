//! Files: reading, status, attributes, handles.

use libc::{
    SYS_copy_file_range, SYS_fgetxattr, SYS_flistxattr, SYS_fstat, SYS_fstatfs, SYS_getcwd,
    SYS_getdents, SYS_getdents64, SYS_getrandom, SYS_lstat, SYS_name_to_handle_at, SYS_newfstatat,
    SYS_pipe, SYS_pipe2, SYS_pread64, SYS_preadv, SYS_preadv2, SYS_process_vm_readv, SYS_read,
    SYS_readlink, SYS_readlinkat, SYS_readv, SYS_sendfile, SYS_splice, SYS_stat, SYS_statfs,
    SYS_statx,
};

use crate::arena::{check, file, number, owned, raw};

#[test]
fn reading_files() {
    check(|arena| {
        let mut file = file(b"some contents to be read in pieces");
        let fd = number(&file);
        std::io::Seek::rewind(&mut file).unwrap();
        let buffer = arena.take(64);
        let answer = arena.succeeds(SYS_read, [fd, buffer, 64]);
        assert_eq!(answer.ranges, [(buffer, 34)], "a short read writes as much as it says");
        arena.succeeds(SYS_pread64, [fd, buffer, 10, 3]);
        let (one, two, three) = (arena.take(8), arena.take(16), arena.take(64));
        let vectors = arena.put_words(&[one, 8, two, 16, three, 64]);
        std::io::Seek::rewind(&mut file).unwrap();
        let answer = arena.succeeds(SYS_readv, [fd, vectors, 3]);
        assert_eq!(answer.ranges, [(one, 8), (two, 16), (three, 10)]);
        arena.succeeds(SYS_preadv, [fd, vectors, 3, 20]);
        arena.succeeds(SYS_preadv2, [fd, vectors, 3, 2, 0, 0]);
        arena.fails(SYS_read, [u64::MAX, buffer, 64], libc::EBADF);
        arena.succeeds(SYS_getrandom, [buffer, 60, 0]);
        let remote = arena.put_words(&[vectors, 48]);
        let own = u64::from(std::process::id());
        arena.succeeds(SYS_process_vm_readv, [own, vectors, 3, remote, 1, 0]);
        let mut event = owned(raw(libc::SYS_eventfd2, &[7, 0, 0, 0, 0, 0]));
        arena.succeeds(SYS_read, [number(&event), buffer, 64]);
        event = owned(raw(libc::SYS_inotify_init1, &[0; 6]));
        let directory = std::env::temp_dir();
        let path = arena.put_text(directory.to_str().unwrap());
        let watch = u64::from(libc::IN_CREATE);
        arena.succeeds(libc::SYS_inotify_add_watch, [number(&event), path, watch]);
        let created = directory.join(format!("effects-{}-{buffer:x}", std::process::id()));
        std::fs::write(&created, "").unwrap();
        std::fs::remove_file(&created).unwrap();
        let room = arena.take(4096);
        arena.succeeds(SYS_read, [number(&event), room, 4096]);
    });
}

#[test]
fn moving_data_between_files() {
    check(|arena| {
        let (source, target) = (file(&[7; 5000]), file(b""));
        let offset = arena.put_words(&[100]);
        let answer = arena.succeeds(SYS_sendfile, [number(&target), number(&source), offset, 2000]);
        assert_eq!((answer.result, answer.ranges), (2000, vec![(offset, 8)]));
        let pipe = arena.take(8);
        arena.succeeds(SYS_pipe, [pipe]);
        arena.succeeds(SYS_pipe2, [pipe, libc::O_CLOEXEC as u64]);
        let write_end = arena.number_at(pipe + 4);
        arena.succeeds(SYS_splice, [number(&source), offset, write_end, 0, 512, 0]);
        let to = arena.put_words(&[0]);
        let copy = [number(&source), offset, number(&target), to, 700, 0];
        assert_eq!(arena.succeeds(SYS_copy_file_range, copy).ranges, [(offset, 8), (to, 8)]);
    });
}

#[test]
fn status_of_files() {
    check(|arena| {
        let directory = std::fs::File::open("/proc/self").unwrap();
        let (path, link) = (arena.put_text("/proc/self/status"), arena.put_text("/proc/self/exe"));
        let here = libc::AT_FDCWD as u64;
        let buffer = arena.take(8192);
        arena.succeeds(SYS_stat, [path, buffer]);
        arena.succeeds(SYS_lstat, [link, buffer]);
        arena.succeeds(SYS_fstat, [number(&directory), buffer]);
        arena.succeeds(SYS_newfstatat, [here, path, buffer, 0]);
        arena.succeeds(SYS_statx, [here, path, 0, 0xfff, buffer]);
        arena.succeeds(SYS_statfs, [path, buffer]);
        let same_again = arena.take(512);
        arena.succeeds(SYS_fstatfs, [number(&directory), same_again]);
        arena.succeeds(SYS_getcwd, [buffer, 4096]);
        arena.succeeds(SYS_readlink, [link, buffer, 4096]);
        assert_eq!(arena.succeeds(SYS_readlinkat, [here, link, buffer, 3]).ranges, [(buffer, 3)]);
        arena.succeeds(SYS_getdents, [number(&directory), buffer, 1000]);
        arena.succeeds(SYS_getdents64, [number(&directory), buffer, 1000]);
        let missing = arena.put_text("/proc/nowhere");
        arena.fails(SYS_stat, [missing, buffer], libc::ENOENT);
    });
}

#[test]
fn extended_attributes() {
    check(|arena| {
        let path = std::env::temp_dir().join(format!("effects-attributes-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (name, value) = (arena.put_text("user.effects"), arena.put(b"a value"));
        let set = arena.call(libc::SYS_fsetxattr, [number(&file), name, value, 7, 0]);
        assert!(set.known && set.ranges.is_empty());
        if set.result != 0 {
            eprintln!("the file system has no user attributes: {}", set.result);
            return;
        }
        let buffer = arena.take(64);
        let get = arena.succeeds(SYS_fgetxattr, [number(&file), name, buffer, 64]);
        assert_eq!(get.ranges, [(buffer, 7)]);
        let size_only = arena.succeeds(SYS_fgetxattr, [number(&file), name, buffer, 0]);
        assert_eq!((size_only.result, size_only.ranges), (7, vec![]));
        arena.succeeds(SYS_flistxattr, [number(&file), buffer, 64]);
    });
}

#[test]
fn file_handles() {
    check(|arena| {
        let (path, handle, mount) = (arena.put_text("/"), arena.take(200), arena.take(16));
        let here = libc::AT_FDCWD as u64;
        arena.set(handle, &128u32.to_le_bytes());
        let answer = arena.call(SYS_name_to_handle_at, [here, path, handle, mount, 0]);
        assert!(answer.known);
        if answer.result == 0 {
            arena.set(handle, &0u32.to_le_bytes());
            let call = [here, path, handle, mount, 0];
            let answer = arena.fails(SYS_name_to_handle_at, call, libc::EOVERFLOW);
            assert_eq!(answer.ranges, [(handle, 8), (mount, 4)]);
        }
    });
}
