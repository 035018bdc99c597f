//! What a guest writes to its standard output: one record per executed case.
//!
//! ```text
//!   0  case number           64  rax rcx rdx rbx rsp rbp rsi rdi r8 .. r15
//!   8  signals received     192  siginfo: the first 32 bytes      (if a signal was received)
//!  16  length of the record 224  the 23 registers of the ucontext (if a signal was received)
//!  24  rflags               448  XSAVE area, standard format
//!  32  fs base                   the signal frame's XSAVE area    (if a signal was received)
//!  40  gs base                   changed lines of the scratch area: number, 64 bytes
//! ```
//!
//! Invariant: these offsets are shared by the emitted dispatcher and the parser, and stand here only.

use super::cpu::Cpu;
use super::registers::GENERAL;

/// Offset of the number of signals.
pub const SIGNALS: u64 = 8;
/// Offset of the record's length.
pub const LENGTH: u64 = 16;
/// Offset of the flags.
pub const FLAGS: u64 = 24;
/// Offset of the FS base.
pub const FS_BASE: u64 = 32;
/// Offset of the GS base.
pub const GS_BASE: u64 = 40;
/// Offset of the general-purpose registers.
pub const GENERAL_REGISTERS: u64 = 64;
/// Offset of the siginfo.
pub const SIGNAL_INFO: u64 = 192;
/// Offset of the ucontext's registers.
pub const UCONTEXT: u64 = 224;
/// Bytes of the ucontext's registers.
pub const FRAME_SIZE: u64 = 23 * 8;
/// Offset of the XSAVE area.
pub const STATE: u64 = 448;

/// Index of RIP among the ucontext's registers.
const UCONTEXT_RIP: u64 = 16;
/// Index of the exception's number.
const UCONTEXT_TRAP: u64 = 20;
/// Index of the faulting address.
const UCONTEXT_CR2: u64 = 22;
/// The exception in which CR2 means something.
const PAGE_FAULT: u64 = 14;
/// Names of the ucontext's registers.
pub const UCONTEXT_NAMES: [&str; 23] = [
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax",
    "rcx", "rsp", "rip", "eflags", "csgsfs", "err", "trapno", "oldmask", "cr2",
];

/// One record, unparsed.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    bytes: &'a [u8],
}

/// A named value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it is, as a debugger would call it.
    pub name: String,
    /// Its bytes, in memory order.
    pub bytes: Vec<u8>,
}

/// Splits a guest's output into its records; a torn last one is dropped.
pub fn records(mut output: &[u8]) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    while output.len() as u64 >= STATE {
        let length = word(output, LENGTH) as usize;
        if length < STATE as usize || length > output.len() {
            break;
        }
        let (bytes, rest) = output.split_at(length);
        records.push(Record { bytes });
        output = rest;
    }
    records
}

impl Record<'_> {
    /// The case's number.
    pub fn case(&self) -> usize {
        word(self.bytes, 0) as usize
    }

    /// The signal received, if any.
    pub fn signal(&self) -> Option<i32> {
        (word(self.bytes, SIGNALS) != 0).then(|| word(self.bytes, SIGNAL_INFO) as i32)
    }

    /// The pc at the signal.
    pub fn signal_pc(&self) -> u64 {
        word(self.bytes, UCONTEXT + 8 * UCONTEXT_RIP)
    }

    /// The bytes that two runs must agree on. `keep_pointers` keeps x87 instruction and operand
    /// pointers, which tell where the code ran.
    pub fn comparable(&self, cpu: &Cpu, keep_pointers: bool) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        let has_frame = self.signal().is_some();
        if !has_frame {
            bytes[SIGNAL_INFO as usize..STATE as usize].fill(0);
        }
        if word(&bytes, UCONTEXT + 8 * UCONTEXT_TRAP) != PAGE_FAULT {
            // Left over from an earlier page fault of the thread.
            let start = (UCONTEXT + 8 * UCONTEXT_CR2) as usize;
            bytes[start..start + 8].fill(0);
        }
        let frame = STATE as usize + cpu.area_size;
        for start in [Some(STATE as usize), has_frame.then_some(frame)].into_iter().flatten() {
            let area = &mut bytes[start..start + cpu.area_size];
            if !keep_pointers {
                area[6..24].fill(0);
            }
            forget_initial_components(cpu, area);
        }
        bytes
    }

    /// Everything comparable in the record, by name.
    pub fn fields(&self, cpu: &Cpu, keep_pointers: bool) -> Vec<Field> {
        let bytes = self.comparable(cpu, keep_pointers);
        Record { bytes: &bytes }.all_fields(cpu)
    }

    fn all_fields(&self, cpu: &Cpu) -> Vec<Field> {
        let mut fields = Vec::new();
        let mut add =
            |name: String, bytes: &[u8]| fields.push(Field { name, bytes: bytes.to_vec() });
        let quad = |offset: u64| &self.bytes[offset as usize..offset as usize + 8];
        add("signals".into(), quad(SIGNALS));
        if self.signal().is_some() {
            for (name, offset, size) in
                [("si_signo", 0, 4), ("si_errno", 4, 4), ("si_code", 8, 4), ("si_addr", 16, 8)]
            {
                let start = SIGNAL_INFO as usize + offset;
                add(name.into(), &self.bytes[start..start + size]);
            }
            add("siginfo+24".into(), quad(SIGNAL_INFO + 24));
            for (number, name) in UCONTEXT_NAMES.iter().enumerate() {
                add(format!("uc.{name}"), quad(UCONTEXT + 8 * number as u64));
            }
        }
        for (number, register) in GENERAL.iter().enumerate() {
            add(
                format!("{register:?}").to_lowercase(),
                quad(GENERAL_REGISTERS + 8 * number as u64),
            );
        }
        add("rflags".into(), quad(FLAGS));
        add("fs_base".into(), quad(FS_BASE));
        add("gs_base".into(), quad(GS_BASE));
        let state = STATE as usize;
        state_fields(cpu, "", &self.bytes[state..state + cpu.area_size], &mut add);
        let mut rest = state + cpu.area_size;
        if self.signal().is_some() {
            state_fields(cpu, "uc.", &self.bytes[rest..rest + cpu.area_size], &mut add);
            rest += cpu.area_size;
        }
        for line in self.bytes[rest..].chunks_exact(72) {
            add(format!("scratch+{:#x}", 64 * word(line, 0)), &line[8..]);
        }
        fields
    }
}

/// Whether the processor remembers that a component is in its initial state is its own business:
/// takes those components out of the bitmap.
fn forget_initial_components(cpu: &Cpu, area: &mut [u8]) {
    let mut in_use = word(area, 512);
    if area[160..416].iter().all(|&byte| byte == 0) {
        in_use &= !2;
    }
    for (number, component) in cpu.layout.iter().enumerate().filter(|(_, layout)| layout.size != 0)
    {
        let bytes = &area[component.offset..component.offset + component.size];
        if bytes.iter().all(|&byte| byte == 0) {
            in_use &= !(1 << number);
        }
    }
    area[512..520].copy_from_slice(&in_use.to_le_bytes());
}

fn state_fields(cpu: &Cpu, prefix: &str, area: &[u8], add: &mut impl FnMut(String, &[u8])) {
    for (name, offset, size) in [
        ("fcw", 0, 2),
        ("fsw", 2, 2),
        ("ftw", 4, 1),
        ("fop", 6, 2),
        ("fip", 8, 8),
        ("fdp", 16, 8),
        ("mxcsr", 24, 8),
    ] {
        add(format!("{prefix}{name}"), &area[offset..offset + size]);
    }
    for register in 0..8 {
        add(format!("{prefix}st{register}"), &area[32 + 16 * register..48 + 16 * register]);
    }
    for register in 0..16 {
        add(format!("{prefix}xmm{register}"), &area[160 + 16 * register..176 + 16 * register]);
    }
    add(format!("{prefix}fxsave+416"), &area[416..512]);
    add(format!("{prefix}xstate_bv"), &area[512..520]);
    add(format!("{prefix}xsave header"), &area[520..576]);
    let parts = [(2, "ymm_hi", 16, 0), (5, "k", 8, 0), (6, "zmm_hi", 32, 0), (7, "zmm", 64, 16)];
    for (component, name, size, first) in parts {
        let layout = cpu.layout[component];
        for number in 0..layout.size / size {
            let start = layout.offset + size * number;
            add(format!("{prefix}{name}{}", first + number), &area[start..start + size]);
        }
    }
}

fn word(bytes: &[u8], offset: u64) -> u64 {
    let start = offset as usize;
    u64::from_le_bytes(bytes[start..start + 8].try_into().expect("eight bytes"))
}
