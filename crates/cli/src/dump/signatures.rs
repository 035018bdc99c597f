//! How many arguments each system call takes, and what kind of number each is.

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A descriptor, or `AT_FDCWD`.
    Descriptor,
    /// A signed number of 32 bits.
    Integer,
    /// A signed number.
    Long,
    /// A size or a count.
    Size,
    /// An address.
    Pointer,
    /// Bits.
    Flags,
    /// Rights of a file.
    Mode,
    /// A signal.
    Signal,
}

impl Argument {
    fn of_letter(letter: u8) -> Argument {
        match letter {
            b'f' => Argument::Descriptor,
            b'i' => Argument::Integer,
            b'l' => Argument::Long,
            b'u' => Argument::Size,
            b'x' => Argument::Flags,
            b'o' => Argument::Mode,
            b's' => Argument::Signal,
            _ => Argument::Pointer,
        }
    }
}

/// The arguments of the call with this name; none if they are not known.
pub fn arguments(name: &str) -> Option<impl Iterator<Item = Argument>> {
    letters(name).map(|letters| letters.bytes().map(Argument::of_letter))
}

/// Whether a call returns an address.
pub fn returns_pointer(name: &str) -> bool {
    matches!(name, "mmap" | "mremap" | "brk" | "shmat" | "map_shadow_stack")
}

/// A letter for each argument: `p` stands for an address, the others for what [`Argument::of_letter`] says.
#[rustfmt::skip]
fn letters(name: &str) -> Option<&'static str> {
    Some(match name {
        "sched_yield" | "pause" | "getpid" | "fork" | "vfork" | "getuid" | "getgid" | "geteuid" | "getegid"
        | "getppid" | "getpgrp" | "setsid" | "munlockall" | "vhangup" | "sync" | "gettid" | "restart_syscall"
        | "inotify_init" | "rt_sigreturn" => "",

        "close" | "fchdir" | "fsync" | "fdatasync" | "syncfs" | "dup" | "epoll_create" => "f",
        "getpgid" | "getsid" | "setuid" | "setgid" | "setfsuid" | "setfsgid" | "exit" | "exit_group"
        | "sched_getscheduler" | "sched_get_priority_max" | "sched_get_priority_min" | "timer_getoverrun"
        | "timer_delete" | "pkey_free" | "iopl" => "i",
        "alarm" | "io_destroy" => "u",
        "brk" | "pipe" | "uname" | "shmdt" | "sysinfo" | "times" | "adjtimex" | "time" | "chdir" | "chroot"
        | "rmdir" | "unlink" | "acct" | "swapoff" | "uselib" | "set_tid_address" | "mq_unlink" | "uretprobe"
        | "uprobe" | "set_thread_area" | "get_thread_area" | "_sysctl" => "p",
        "umask" => "o",
        "personality" | "unshare" | "userfaultfd" | "inotify_init1" | "epoll_create1" | "mlockall"
        | "memfd_secret" => "x",
        "eventfd" => "u",

        "stat" | "lstat" | "rename" | "link" | "symlink" | "nanosleep" | "statfs" | "utime" | "utimes" | "capget"
        | "capset" | "sigaltstack" | "gettimeofday" | "settimeofday" | "pivot_root" | "removexattr"
        | "lremovexattr" => "pp",
        "fstat" | "fstatfs" | "fremovexattr" | "timerfd_gettime" => "fp",
        "open" => "pxo",
        "creat" | "mkdir" | "chmod" => "po",
        "access" => "pi",
        "munmap" | "mlock" | "munlock" | "rt_sigpending" | "truncate" | "getcwd" | "swapon" | "sethostname"
        | "setdomainname" | "rt_sigsuspend" | "set_robust_list" => "pu",
        "fchmod" => "fo",
        "ftruncate" => "fl",
        "flock" => "fx",
        "dup2" | "listen" | "shutdown" => "fi",
        "getitimer" | "getrlimit" | "setrlimit" | "getrusage" | "sched_setparam" | "sched_getparam"
        | "sched_rr_get_interval" | "clock_gettime" | "clock_settime" | "clock_getres" | "clock_adjtime"
        | "timer_gettime" | "ustat" => "ip",
        "kill" | "tkill" => "is",
        "setpgid" | "setreuid" | "setregid" | "ioprio_get" | "getpriority" | "pkey_alloc" => "ii",
        "getgroups" | "setgroups" | "io_setup" | "io_uring_setup" => "up",
        "arch_prctl" => "xp",
        "pipe2" | "delete_module" | "umount2" | "memfd_create" => "px",
        "timerfd_create" | "eventfd2" | "pidfd_open" | "setns" => "ix",
        "inotify_rm_watch" => "fi",
        "mq_notify" => "fp",
        "fanotify_init" => "xx",
        "process_mrelease" | "landlock_restrict_self" => "fx",
        "fsopen" => "px",
        "clone3" => "pu",

        "read" | "write" | "getdents" | "getdents64" => "fpu",
        "readv" | "writev" => "fpi",
        "poll" => "pui",
        "lseek" => "fli",
        "mprotect" => "pux",
        "msync" | "mlock2" => "pux",
        "mincore" => "pup",
        "madvise" => "pui",
        "ioctl" | "fcntl" => "fxp",
        "shmget" => "iux",
        "shmat" => "ipx",
        "shmctl" | "msgctl" => "iip",
        "setitimer" | "timer_create" => "ipp",
        "socket" => "ixi",
        "connect" | "bind" => "fpu",
        "accept" | "getsockname" | "getpeername" => "fpp",
        "sendmsg" | "recvmsg" => "fpx",
        "execve" => "ppp",
        "semget" => "iix",
        "semop" => "ipu",
        "semctl" => "iiip",
        "msgget" => "ix",
        "readlink" => "ppu",
        "chown" | "lchown" => "pii",
        "fchown" => "fii",
        "syslog" => "ipi",
        "setresuid" | "setresgid" | "setpriority" | "ioprio_set" => "iii",
        "getresuid" | "getresgid" => "ppp",
        "rt_sigqueueinfo" => "isp",
        "mknod" => "pox",
        "sysfs" => "ipp",
        "sched_setscheduler" => "iip",
        "modify_ldt" => "ipu",
        "ioperm" => "uui",
        "init_module" => "pup",
        "quotactl" => "xpip",
        "readahead" => "flu",
        "listxattr" | "llistxattr" => "ppu",
        "flistxattr" => "fpu",
        "sched_setaffinity" | "sched_getaffinity" => "iup",
        "io_submit" => "ulp",
        "io_cancel" => "upp",
        "lookup_dcookie" => "upu",
        "tgkill" => "iis",
        "set_mempolicy" => "ipu",
        "mq_getsetattr" => "fpp",
        "inotify_add_watch" => "fpx",
        "mkdirat" => "fpo",
        "futimesat" => "fpp",
        "unlinkat" => "fpx",
        "symlinkat" => "pfp",
        "fchmodat" => "fpo",
        "faccessat" => "fpi",
        "get_robust_list" => "ipp",
        "signalfd" => "fpu",
        "dup3" => "ffx",
        "open_by_handle_at" => "fpx",
        "getcpu" => "ppp",
        "finit_module" => "fpx",
        "sched_setattr" => "ipx",
        "seccomp" => "xxp",
        "getrandom" => "pux",
        "bpf" => "ipu",
        "membarrier" => "ixi",
        "close_range" => "ffx",
        "pidfd_getfd" => "ffx",
        "open_tree" => "fpx",
        "fspick" => "fpx",
        "fsmount" => "fxx",
        "landlock_create_ruleset" => "pux",
        "mseal" | "map_shadow_stack" => "pux",
        "lsm_list_modules" => "ppx",

        "rt_sigaction" => "sppu",
        "rt_sigprocmask" => "ippu",
        "pread64" | "pwrite64" => "fpul",
        "sendfile" => "ffpu",
        "socketpair" => "ixip",
        "wait4" => "ipxp",
        "msgsnd" => "ipux",
        "ptrace" => "iipp",
        "rt_sigtimedwait" => "pppu",
        "reboot" => "xxxp",
        "setxattr" | "lsetxattr" => "pppux",
        "fsetxattr" => "fppux",
        "getxattr" | "lgetxattr" => "pppu",
        "fgetxattr" => "fppu",
        "epoll_ctl" => "fifp",
        "epoll_wait" => "fpii",
        "semtimedop" => "ipup",
        "fadvise64" => "flui",
        "timer_settime" | "timerfd_settime" => "ixpp",
        "clock_nanosleep" => "ixpp",
        "mq_open" => "pxop",
        "kexec_load" => "uupx",
        "request_key" => "pppi",
        "migrate_pages" => "iupp",
        "openat" => "fpxo",
        "mknodat" => "fpox",
        "newfstatat" => "fppx",
        "renameat" => "fpfp",
        "readlinkat" => "fppu",
        "tee" => "ffux",
        "sync_file_range" => "fllx",
        "vmsplice" => "fpux",
        "utimensat" => "fppx",
        "fallocate" => "fxll",
        "accept4" => "fppx",
        "signalfd4" => "fpux",
        "rt_tgsigqueueinfo" => "iisp",
        "prlimit64" => "iipp",
        "sendmmsg" => "fpux",
        "sched_getattr" => "ipux",
        "pkey_mprotect" => "puxi",
        "rseq" => "puxx",
        "pidfd_send_signal" => "fspx",
        "io_uring_register" => "fxpu",
        "openat2" => "fppu",
        "faccessat2" | "fchmodat2" => "fpox",
        "quotactl_fd" => "fxip",
        "landlock_add_rule" => "fipx",
        "set_mempolicy_home_node" => "puux",
        "cachestat" => "fppx",
        "futex_wake" => "pxix",
        "futex_requeue" => "pxii",
        "statmount" | "listmount" => "ppux",
        "lsm_get_self_attr" => "xppx",
        "lsm_set_self_attr" => "xpux",
        "removexattrat" => "fpxp",

        "mremap" => "puuxp",
        "select" => "ipppp",
        "setsockopt" => "fiipu",
        "getsockopt" => "fiipp",
        "clone" => "xpppx",
        "msgrcv" => "ipulx",
        "prctl" => "ixxxx",
        "mount" => "pppxp",
        "io_getevents" => "ullpp",
        "remap_file_pages" => "puxux",
        "get_mempolicy" => "ppupx",
        "mq_timedsend" => "fpuup",
        "mq_timedreceive" => "fpupp",
        "waitid" => "iipxp",
        "add_key" => "pppui",
        "keyctl" => "ixxxx",
        "fchownat" => "fpiix",
        "linkat" => "fpfpx",
        "ppoll" => "puppu",
        "perf_event_open" => "piifx",
        "recvmmsg" => "fpuxp",
        "fanotify_mark" => "fxxfp",
        "name_to_handle_at" => "fpppx",
        "preadv" | "pwritev" => "fpull",
        "kcmp" => "iiixx",
        "renameat2" => "fpfpx",
        "kexec_file_load" => "ffupx",
        "execveat" => "fpppx",
        "statx" => "fpxxp",
        "move_mount" => "fpfpx",
        "fsconfig" => "fxppi",
        "process_madvise" => "fpuix",
        "mount_setattr" | "open_tree_attr" => "fpxpu",
        "futex_waitv" => "puxpi",
        "file_getattr" | "file_setattr" => "fppux",
        "listxattrat" => "fpxpu",

        "mmap" => "puxxfx",
        "sendto" => "fpuxpu",
        "recvfrom" => "fpuxpp",
        "futex" => "pxippx",
        "mbind" => "puxpux",
        "pselect6" => "ippppp",
        "splice" => "fpfpux",
        "move_pages" => "iupppx",
        "epoll_pwait" => "fpiipu",
        "epoll_pwait2" => "fpippu",
        "process_vm_readv" | "process_vm_writev" => "ipupux",
        "copy_file_range" => "fpfpux",
        "preadv2" | "pwritev2" => "fpullx",
        "io_pgetevents" => "ullppp",
        "io_uring_enter" => "fuuxpu",
        "futex_wait" => "pxxxpi",
        "setxattrat" | "getxattrat" => "fpxppu",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use retro_abi::syscall_names;

    /// Calls that no kernel of this architecture answers.
    const NEVER_THERE: [&str; 12] = [
        "create_module",
        "get_kernel_syms",
        "query_module",
        "getpmsg",
        "putpmsg",
        "afs_syscall",
        "tuxcall",
        "security",
        "vserver",
        "epoll_ctl_old",
        "epoll_wait_old",
        "nfsservctl",
    ];

    #[test]
    fn every_call_has_its_arguments() {
        let missing: Vec<&str> = (0..512)
            .filter_map(syscall_names::name)
            .filter(|name| letters(name).is_none() && !NEVER_THERE.contains(name))
            .collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn letters_are_known_and_few() {
        for letters in (0..512).filter_map(syscall_names::name).filter_map(letters) {
            assert!(
                letters.len() <= 6 && letters.bytes().all(|l| b"filuxosp".contains(&l)),
                "{letters}"
            );
        }
    }
}
