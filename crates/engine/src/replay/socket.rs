//! The socket to the owner: messages with descriptors, and copies of this process.

use super::sandbox;
use crate::lock::Lock;
use crate::sys::{self, Errno, Result};
use core::ptr;
use linux_raw_sys::general as c;
use retro_abi::replay::{HEADER_SIZE, Header, MAX_PAYLOAD};

/// The socket.
const SOCKET: u64 = sandbox::SOCKET as u64;

/// Linux's `struct iovec`.
#[repr(C)]
struct Piece {
    base: *mut u8,
    len: usize,
}

/// Linux's `struct msghdr`.
#[repr(C)]
struct MessageHeader {
    name: *mut u8,
    name_len: u32,
    pieces: *mut Piece,
    piece_count: usize,
    control: *mut u8,
    control_len: usize,
    flags: u32,
}

/// `struct cmsghdr` with room for one descriptor.
#[repr(C, align(8))]
#[derive(Default)]
struct Control {
    len: usize,
    level: i32,
    kind: i32,
    descriptor: i32,
    padding: i32,
}

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const MSG_NOSIGNAL: u64 = 0x4000;
const MSG_DONTWAIT: u64 = 0x40;

/// A message that was received.
pub struct Message {
    /// Its words.
    pub header: Header,
    /// How much of the buffer is payload.
    pub len: usize,
    /// The descriptor that came along.
    pub descriptor: Option<i32>,
}

/// Waits for a message; `None` when there is nobody any more.
pub fn receive(payload: &mut [u8; MAX_PAYLOAD]) -> Option<Message> {
    receive_with(payload, 0)
}

/// The same for an answer that is about to come: falling asleep and being woken takes longer than the owner needs.
pub fn receive_soon(payload: &mut [u8; MAX_PAYLOAD]) -> Option<Message> {
    /// About a quarter of a millisecond.
    const LOOKS: u32 = 500;
    receive_with(payload, LOOKS)
}

fn receive_with(payload: &mut [u8; MAX_PAYLOAD], mut looks: u32) -> Option<Message> {
    let mut header = [0u8; HEADER_SIZE];
    let mut pieces = [
        Piece { base: header.as_mut_ptr(), len: header.len() },
        Piece { base: payload.as_mut_ptr(), len: payload.len() },
    ];
    let mut control = Control::default();
    let mut message = MessageHeader {
        name: ptr::null_mut(),
        name_len: 0,
        pieces: pieces.as_mut_ptr(),
        piece_count: pieces.len(),
        control: (&raw mut control).cast(),
        control_len: size_of::<Control>(),
        flags: 0,
    };
    let received = loop {
        let flags = if looks > 0 { MSG_DONTWAIT } else { 0 };
        let args = [SOCKET, &raw mut message as u64, flags, 0, 0, 0];
        // SAFETY: the kernel writes to the header, the payload and the control buffer, which are borrowed here.
        match sys::check(unsafe { sys::syscall(c::__NR_recvmsg, args) }) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) if looks > 0 => looks -= 1,
            received => break received.ok()? as usize,
        }
    };
    if received < HEADER_SIZE {
        return None;
    }
    let carries = message.control_len >= size_of::<usize>() + 12
        && control.level == SOL_SOCKET
        && control.kind == SCM_RIGHTS;
    Some(Message {
        header: Header::from_bytes(&header),
        len: received - HEADER_SIZE,
        descriptor: carries.then_some(control.descriptor),
    })
}

/// What is to be sent together.
struct Gathered {
    kind: u64,
    len: usize,
    bytes: [u8; MAX_PAYLOAD],
}

static GATHERED: Lock<Gathered> = Lock::new(Gathered { kind: 0, len: 0, bytes: [0; MAX_PAYLOAD] });

/// Sends parts, together with others of the same kind when there are enough of them, and before anything else is sent.
pub fn gather(kind: u64, parts: &[&[u8]]) {
    let mut gathered = GATHERED.lock();
    let len: usize = parts.iter().map(|part| part.len()).sum();
    if gathered.kind != kind || gathered.len + len > gathered.bytes.len() {
        gathered.send();
        gathered.kind = kind;
    }
    for part in parts {
        let at = gathered.len;
        gathered.bytes[at..at + part.len()].copy_from_slice(part);
        gathered.len += part.len();
    }
}

impl Gathered {
    fn send(&mut self) {
        let len = core::mem::take(&mut self.len);
        if len > 0 {
            send_now(Header::new(self.kind, []), &self.bytes[..len]);
        }
    }
}

/// Sends a message. When there is nobody any more, there is nothing left to do for this process either.
pub fn send(header: Header, payload: &[u8]) {
    GATHERED.lock().send();
    send_now(header, payload);
}

fn send_now(header: Header, payload: &[u8]) {
    let header = header.to_bytes();
    let mut pieces = [
        Piece { base: header.as_ptr().cast_mut(), len: header.len() },
        Piece { base: payload.as_ptr().cast_mut(), len: payload.len() },
    ];
    let message = MessageHeader {
        name: ptr::null_mut(),
        name_len: 0,
        pieces: pieces.as_mut_ptr(),
        piece_count: pieces.len(),
        control: ptr::null_mut(),
        control_len: 0,
        flags: 0,
    };
    let args = [SOCKET, &raw const message as u64, MSG_NOSIGNAL, 0, 0, 0];
    loop {
        // SAFETY: the kernel only reads what is borrowed here.
        match sys::check(unsafe { sys::syscall(c::__NR_sendmsg, args) }) {
            Ok(_) => return,
            Err(Errno::EINTR) => {}
            Err(_) => sys::exit_group(1),
        }
    }
}

/// Makes a copy of this process that is a child of the owner, too. The copy talks over `socket`; the process id is what
/// both learn, the copy as 0.
pub fn fork(socket: i32) -> Result<u64> {
    let flags = sandbox::COPY as u64;
    // SAFETY: there is one thread only, and the copy goes on with copies of all its memory.
    let copy = sys::check(unsafe { sys::syscall(c::__NR_clone, [flags, 0, 0, 0, 0, 0]) })?;
    if copy == 0 {
        let args = [socket as u64, SOCKET, 0, 0, 0, 0];
        // SAFETY: replaces this process's own descriptor.
        sys::check(unsafe { sys::syscall(c::__NR_dup2, args) })?;
    }
    sys::close(socket);
    Ok(copy)
}
