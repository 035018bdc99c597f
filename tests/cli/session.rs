//! A program that a test talks to while it runs: through pipes, or through a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{io, mem, ptr, thread};

const PATIENCE: Duration = Duration::from_secs(30);

/// A running program. Killed with its whole session or group when dropped.
pub struct Session {
    child: Child,
    output: Receiver<Vec<u8>>,
    seen: String,
    terminal: Option<File>,
}

impl Session {
    /// Starts `command` in a process group of its own, reading its stdout.
    pub fn with_pipe(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        Self { child, output: reader(stdout), seen: String::new(), terminal: None }
    }

    /// Starts `command` as the leader of a session on a new terminal.
    pub fn on_terminal(command: &mut Command) -> Self {
        let (master, slave) = open_terminal().expect("a terminal can be created");
        let stream = || Stdio::from(slave.try_clone().expect("a descriptor is left"));
        command.stdin(stream()).stdout(stream()).stderr(stream());
        // SAFETY: the closure only makes system calls that are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            })
        };
        let child = command.spawn().expect("the program starts");
        // The child's ends must be the only ones, or the terminal never hangs up.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let master = File::from(master);
        let output = reader(master.try_clone().expect("a descriptor is left"));
        Self { child, output, seen: String::new(), terminal: Some(master) }
    }

    /// The process that was started.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Waits until the output, from where the last call stopped, has `text`; returns what precedes.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(index) = self.seen.find(text) {
                let rest = self.seen.split_off(index + text.len());
                let mut before = mem::replace(&mut self.seen, rest);
                before.truncate(index);
                return before;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout) => panic!("no {text:?} in {:?}", self.seen),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the program ended without {text:?}: {:?}", self.seen)
                }
            }
        }
    }

    /// Types on the terminal.
    pub fn type_in(&mut self, keys: &str) {
        let terminal = self.terminal.as_mut().expect("the session has a terminal");
        terminal.write_all(keys.as_bytes()).expect("the terminal takes input");
    }

    /// Changes the terminal's size, which tells its foreground group.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = self.terminal.as_ref().expect("the session has a terminal");
        // SAFETY: the descriptor is open and `size` valid for the call.
        let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// Sends a signal to the process that was started, and to no other.
    pub fn signal(&self, signal: i32) {
        // SAFETY: `kill` touches no memory; the child is not reaped before this session ends.
        let result = unsafe { libc::kill(self.pid(), signal) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// Waits until the process stops or ends and returns the raw wait status.
    #[track_caller]
    pub fn wait(&self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut status = 0;
            let flags = libc::WNOHANG | libc::WUNTRACED;
            // SAFETY: the pointer is valid for the call.
            let pid = unsafe { libc::waitpid(self.pid(), &mut status, flags) };
            if pid != 0 {
                assert_eq!(pid, self.pid(), "{}", io::Error::last_os_error());
                return status;
            }
            assert!(Instant::now() < deadline, "no change of state; output {:?}", self.seen);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: `kill` touches no memory. The child leads its group, whose number stays taken
        // while any member lives; with none left the call fails, which is as well.
        unsafe { libc::kill(-self.pid(), libc::SIGKILL) };
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads everything in a thread of its own, so that waiting for it can time out.
fn reader(mut source: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        // A terminal that hangs up reads as an error; both are the end.
        while let Ok(length @ 1..) = source.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointers are valid for the call or null where null is allowed.
    let result =
        unsafe { libc::openpty(&mut master, &mut slave, ptr::null_mut(), ptr::null(), &size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // Another test may fork at any moment: a copy of the master in its child would do no harm
    // but keep the terminal from hanging up.
    for fd in [master, slave] {
        // SAFETY: both descriptors are open.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: both were just created and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) })
}
