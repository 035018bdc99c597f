//! A moment of a process, as far as unwinding and expressions look at it.

/// DWARF's numbers of the registers that are not general.
pub mod register {
    /// The flags.
    pub const RFLAGS: u16 = 49;
    /// What addresses with the prefix `fs` are relative to.
    pub const FS_BASE: u16 = 58;
    /// What addresses with the prefix `gs` are relative to.
    pub const GS_BASE: u16 = 59;
}

/// Registers and memory of a thread at one moment.
pub trait Machine {
    /// A register by its DWARF number: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, 16 for the instruction pointer,
    /// and those of [`register`]. None if it is not known, as in outer frames.
    fn register(&self, number: u16) -> Option<u64>;

    /// The lower 16 bytes of a vector register.
    fn vector(&self, number: u16) -> Option<[u8; 16]>;

    /// What thread-local addresses are relative to.
    fn fs_base(&self) -> Option<u64>;

    /// Fills the buffer from memory. False if not all of it is mapped.
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool;
}
