//! Kernels, and containers, that do not have the calls which are used first: the other ways must be as good.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;

use retro_testkit::compare::{Ending, Outcome, run};

use crate::place::{Place, TIMEOUT, assert_refused, retro_path, said};

/// Makes calls fail in a command and everything that it starts, as if the kernel did not have them.
fn without(command: &mut Command, calls: &'static [libc::c_long], error: i32) {
    const ALLOW: u32 = 0x7fff_0000;
    const FAIL: u32 = 0x0005_0000;
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = vec![instruction(0x20, 0, 0, 0)];
    for &call in calls {
        filter.push(instruction(0x15, 0, 1, call as u32));
        filter.push(instruction(0x06, 0, 0, FAIL | error as u32));
    }
    filter.push(instruction(0x06, 0, 0, ALLOW));
    // SAFETY: only calls the kernel, with what was allocated before.
    unsafe {
        command.pre_exec(move || {
            let program =
                libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            match libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

fn old_retro(place: &Place, error: i32, arguments: &[&str]) -> Outcome {
    let mut command = place.command(retro_path());
    without(&mut command, &[libc::SYS_openat2, libc::SYS_close_range], error);
    run(command.args(arguments), TIMEOUT)
}

#[test]
fn links_are_refused_without_openat2() {
    for error in [libc::ENOSYS, libc::EPERM] {
        let place = Place::new("old-links");
        place.honest();
        assert_eq!(old_retro(&place, error, &["index", "recording"]).status, Ending::Exited(0));
        fs::remove_dir_all(place.recording().join("index")).unwrap();
        symlink(place.home(), place.recording().join("index")).unwrap();
        assert_refused(
            &old_retro(&place, error, &["index", "recording"]),
            &["index", "a symbolic link"],
        );
        fs::remove_file(place.recording().join("index")).unwrap();
        fs::create_dir_all(place.recording().join("index/0-0")).unwrap();
        symlink(place.victim(), place.recording().join("index/0-0/lock")).unwrap();
        assert_refused(
            &old_retro(&place, error, &["bt", "-r", "recording"]),
            &["0-0/lock", "a symbolic link"],
        );
        place.assert_unharmed();
    }
}

#[test]
fn descriptors_are_closed_without_close_range() {
    let place = Place::new("old-descriptors");
    place.hostile("one_call", &["CALL=NR_fstat", "A=3", "B=0x20000000", "C=0", "D=0"]);
    let mut command = place.command("bash");
    command.args(["-c", "exec 3<>home/.bashrc 40</etc/passwd; exec \"$0\" verify recording"]);
    without(command.arg(retro_path()), &[libc::SYS_openat2, libc::SYS_close_range], libc::ENOSYS);
    let outcome = run(&mut command, TIMEOUT);
    // EBADF
    assert!(said(&outcome).contains("did it 18446744073709551607"), "{}", said(&outcome));
    place.assert_unharmed();
}
