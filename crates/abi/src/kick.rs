//! The signal that makes a thread leave the code cache: sent by other threads of its process, and by the recorder.

/// The one that C libraries keep for themselves, so that no program blocks and queues it. A kick is told from the libraries' own use
/// by its value.
pub const SIGNAL: u32 = 33;

/// The value that a kick carries.
const VALUE: u64 = 0x7265_7472_6f6b_6963;

/// Bytes of `siginfo_t`.
pub const INFO_SIZE: usize = 128;

/// The `siginfo_t` of a kick.
pub fn info() -> [u8; INFO_SIZE] {
    const SI_QUEUE: i32 = -1;
    let mut info = [0; INFO_SIZE];
    info[0..4].copy_from_slice(&SIGNAL.to_le_bytes());
    info[8..12].copy_from_slice(&SI_QUEUE.to_le_bytes());
    info[24..32].copy_from_slice(&VALUE.to_le_bytes());
    info
}

/// Whether a `siginfo_t` is that of a kick.
pub fn is_kick(info: &[u8; INFO_SIZE]) -> bool {
    info[0..4] == SIGNAL.to_le_bytes() && info[24..32] == VALUE.to_le_bytes()
}
