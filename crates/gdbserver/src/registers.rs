//! Registers as gdb numbers them, and the description that tells it so.
//!
//! *Problem.* The protocol has registers one behind the other, in the order of a description in XML, whose features have names
//! and registers that gdb knows. The run has general registers by number and an image of `xsave`.
//!
//! *Strategy.* [`Layout`] lists every register with its name, type and where its bytes come from; the description and the
//! values are both made from that list, so that they cannot disagree. Vector registers are there as far as the processor that
//! replays has them: parts of `xsave` lie where that processor says.

use std::arch::x86_64::__cpuid_count;
use std::fmt::Write;

use retro_abi::log::register;
use retro_query::Registers;

/// Where the bytes of a register come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A general register by its number in the log, and how many bytes of it.
    General(usize, usize),
    /// A number that never changes, in four bytes.
    Constant(u32),
    /// So many bytes of the image of `xsave`, from an offset on.
    Image(usize, usize),
    /// A part of the x87 unit's own registers.
    X87(X87),
    /// The system call that a thread waits in.
    Syscall,
}

/// Registers of the x87 unit, which the image has in shorter forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum X87 {
    Control,
    Status,
    Tags,
    InstructionSegment,
    InstructionOffset,
    OperandSegment,
    OperandOffset,
    Opcode,
}

/// A register.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Described {
    name: String,
    bits: u32,
    kind: &'static str,
    source: Source,
}

impl Described {
    fn new(name: impl Into<String>, bits: u32, kind: &'static str, source: Source) -> Described {
        Described { name: name.into(), bits, kind, source }
    }
}

/// Registers that gdb knows by the name of a feature.
#[derive(Clone, Debug)]
struct Feature {
    name: &'static str,
    types: &'static [&'static str],
    registers: Vec<Described>,
}

/// All registers, in order.
#[derive(Clone, Debug)]
pub struct Layout {
    features: Vec<Feature>,
}

/// Segments of 64-bit programs.
const CODE_SEGMENT: u32 = 0x33;
const STACK_SEGMENT: u32 = 0x2b;

/// Where the parts of an image are that are the same everywhere.
const MXCSR: usize = 24;
const ST: usize = 32;
const XMM: usize = 160;
/// Which parts an image has that are not in their first state.
const USED_PARTS: usize = 512;

/// Numbers of the other parts.
const YMM_UPPER: u32 = 2;
const MASKS: u32 = 5;
const ZMM_UPPER: u32 = 6;
const ZMM_HIGH: u32 = 7;

/// gdb's order of the general registers, by their numbers in the log.
const GENERAL: [(&str, usize); 16] = [
    ("rax", 0),
    ("rbx", 3),
    ("rcx", 1),
    ("rdx", 2),
    ("rsi", 6),
    ("rdi", 7),
    ("rbp", 5),
    ("rsp", 4),
    ("r8", 8),
    ("r9", 9),
    ("r10", 10),
    ("r11", 11),
    ("r12", 12),
    ("r13", 13),
    ("r14", 14),
    ("r15", 15),
];

/// Numbers of registers that every stop tells, because every client asks for them next.
pub const EXPEDITED: [u64; 3] = [6, 7, 16];

const FLAGS_TYPE: &str = r#"<flags id="i386_eflags" size="4"><field name="" start="22" end="31"/>
<field name="CF" start="0" end="0"/><field name="" start="1" end="1"/><field name="PF" start="2" end="2"/>
<field name="AF" start="4" end="4"/><field name="ZF" start="6" end="6"/><field name="SF" start="7" end="7"/>
<field name="TF" start="8" end="8"/><field name="IF" start="9" end="9"/><field name="DF" start="10" end="10"/>
<field name="OF" start="11" end="11"/><field name="NT" start="14" end="14"/><field name="RF" start="16" end="16"/>
<field name="VM" start="17" end="17"/><field name="AC" start="18" end="18"/><field name="VIF" start="19" end="19"/>
<field name="VIP" start="20" end="20"/><field name="ID" start="21" end="21"/></flags>"#;

const VECTOR_TYPES: &str = r#"<vector id="v8bf16" type="bfloat16" count="8"/>
<vector id="v4f" type="ieee_single" count="4"/><vector id="v2d" type="ieee_double" count="2"/>
<vector id="v16i8" type="int8" count="16"/><vector id="v8i16" type="int16" count="8"/>
<vector id="v4i32" type="int32" count="4"/><vector id="v2i64" type="int64" count="2"/>
<union id="vec128"><field name="v8_bfloat16" type="v8bf16"/><field name="v4_float" type="v4f"/>
<field name="v2_double" type="v2d"/><field name="v16_int8" type="v16i8"/><field name="v8_int16" type="v8i16"/>
<field name="v4_int32" type="v4i32"/><field name="v2_int64" type="v2i64"/><field name="uint128" type="uint128"/></union>"#;

const CONTROL_TYPE: &str = r#"<flags id="i386_mxcsr" size="4"><field name="IE" start="0" end="0"/>
<field name="DE" start="1" end="1"/><field name="ZE" start="2" end="2"/><field name="OE" start="3" end="3"/>
<field name="UE" start="4" end="4"/><field name="PE" start="5" end="5"/><field name="DAZ" start="6" end="6"/>
<field name="IM" start="7" end="7"/><field name="DM" start="8" end="8"/><field name="ZM" start="9" end="9"/>
<field name="OM" start="10" end="10"/><field name="UM" start="11" end="11"/><field name="PM" start="12" end="12"/>
<field name="FZ" start="15" end="15"/></flags>"#;

const WIDE_TYPES: &str = r#"<vector id="v2ui128" type="uint128" count="2"/>"#;

impl Layout {
    /// As this processor has them.
    pub fn of_this_processor() -> Layout {
        Layout::with_parts(part)
    }

    /// With the parts of `xsave` at some offsets.
    fn with_parts(offset: impl Fn(u32) -> Option<usize>) -> Layout {
        let mut features = vec![core(), sse(), linux(), segments()];
        if let Some(upper) = offset(YMM_UPPER) {
            let registers =
                numbered("ymm", "h", 0..16, 128, "uint128", |number| upper + 16 * number);
            features.push(Feature { name: "org.gnu.gdb.i386.avx", types: &[], registers });
        }
        if let (Some(masks), Some(upper), Some(high)) =
            (offset(MASKS), offset(ZMM_UPPER), offset(ZMM_HIGH))
        {
            features.push(avx512(masks, upper, high));
        }
        Layout { features }
    }

    /// The description, in XML.
    pub fn description(&self) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target version=\"1.0\">\n\
             <architecture>i386:x86-64</architecture>\n<osabi>GNU/Linux</osabi>\n",
        );
        for feature in &self.features {
            let _ =
                writeln!(text, "<feature name=\"{}\">\n{}", feature.name, feature.types.join("\n"));
            for Described { name, bits, kind, .. } in &feature.registers {
                let _ = writeln!(text, "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>");
            }
            text.push_str("</feature>\n");
        }
        text.push_str("</target>\n");
        text
    }

    fn all(&self) -> impl Iterator<Item = &Described> {
        self.features.iter().flat_map(|feature| &feature.registers)
    }

    /// All values, in order.
    pub fn values(&self, registers: &Registers) -> Vec<u8> {
        self.all().flat_map(|described| value(described, registers)).collect()
    }

    /// One of the general registers; none for all others.
    pub fn general(&self, number: u64, general: &[u64; register::COUNT]) -> Option<u64> {
        match self.all().nth(usize::try_from(number).ok()?)?.source {
            Source::General(number, 8) => Some(general[number]),
            Source::General(number, _) => Some(general[number] & 0xffff_ffff),
            Source::Constant(value) => Some(value.into()),
            _ => None,
        }
    }

    /// One value.
    pub fn value(&self, number: u64, registers: &Registers) -> Option<Vec<u8>> {
        let described = self.all().nth(usize::try_from(number).ok()?)?;
        Some(value(described, registers))
    }
}

fn core() -> Feature {
    let mut registers: Vec<Described> = (GENERAL.iter())
        .map(|&(name, number)| {
            let kind = if matches!(name, "rbp" | "rsp") { "data_ptr" } else { "int64" };
            Described::new(name, 64, kind, Source::General(number, 8))
        })
        .collect();
    let mut add = |name: &str, bits, kind, source| {
        registers.push(Described::new(name, bits, kind, source));
    };
    add("rip", 64, "code_ptr", Source::General(register::RIP as usize, 8));
    add("eflags", 32, "i386_eflags", Source::General(register::RFLAGS as usize, 4));
    add("cs", 32, "int32", Source::Constant(CODE_SEGMENT));
    add("ss", 32, "int32", Source::Constant(STACK_SEGMENT));
    for name in ["ds", "es", "fs", "gs"] {
        add(name, 32, "int32", Source::Constant(0));
    }
    for number in 0..8 {
        add(&format!("st{number}"), 80, "i387_ext", Source::Image(ST + 16 * number, 10));
    }
    for (name, part) in [
        ("fctrl", X87::Control),
        ("fstat", X87::Status),
        ("ftag", X87::Tags),
        ("fiseg", X87::InstructionSegment),
        ("fioff", X87::InstructionOffset),
        ("foseg", X87::OperandSegment),
        ("fooff", X87::OperandOffset),
        ("fop", X87::Opcode),
    ] {
        add(name, 32, "int", Source::X87(part));
    }
    Feature { name: "org.gnu.gdb.i386.core", types: &[FLAGS_TYPE], registers }
}

fn sse() -> Feature {
    let mut registers = numbered("xmm", "", 0..16, 128, "vec128", |number| XMM + 16 * number);
    registers.push(Described::new("mxcsr", 32, "i386_mxcsr", Source::Image(MXCSR, 4)));
    Feature { name: "org.gnu.gdb.i386.sse", types: &[VECTOR_TYPES, CONTROL_TYPE], registers }
}

fn linux() -> Feature {
    let registers = vec![Described::new("orig_rax", 64, "int", Source::Syscall)];
    Feature { name: "org.gnu.gdb.i386.linux", types: &[], registers }
}

fn segments() -> Feature {
    let base = |name: &str, number: u32| {
        Described::new(name, 64, "int", Source::General(number as usize, 8))
    };
    let registers = vec![base("fs_base", register::FS_BASE), base("gs_base", register::GS_BASE)];
    Feature { name: "org.gnu.gdb.i386.segments", types: &[], registers }
}

fn avx512(masks: usize, upper: usize, high: usize) -> Feature {
    let mut registers = numbered("k", "", 0..8, 64, "uint64", |number| masks + 8 * number);
    registers.extend(numbered("zmm", "h", 0..16, 256, "v2ui128", |number| upper + 32 * number));
    let at = |number: usize| high + 64 * (number - 16);
    registers.extend(numbered("xmm", "", 16..32, 128, "vec128", at));
    registers.extend(numbered("ymm", "h", 16..32, 128, "uint128", |number| at(number) + 16));
    registers.extend(numbered("zmm", "h", 16..32, 256, "v2ui128", |number| at(number) + 32));
    Feature { name: "org.gnu.gdb.i386.avx512", types: &[VECTOR_TYPES, WIDE_TYPES], registers }
}

fn numbered(
    name: &str,
    ending: &str,
    numbers: std::ops::Range<usize>,
    bits: u32,
    kind: &'static str,
    offset: impl Fn(usize) -> usize,
) -> Vec<Described> {
    let source = |number| Source::Image(offset(number), bits as usize / 8);
    let one =
        |number| Described::new(format!("{name}{number}{ending}"), bits, kind, source(number));
    numbers.map(one).collect()
}

/// Where a part of an image is; none if this processor does not have it.
fn part(component: u32) -> Option<usize> {
    if __cpuid_count(0, 0).eax < 0xd {
        return None;
    }
    let answer = __cpuid_count(0xd, component);
    (answer.eax != 0).then_some(answer.ebx as usize)
}

fn value(described: &Described, registers: &Registers) -> Vec<u8> {
    let image = &registers.vectors;
    match described.source {
        Source::General(number, len) => registers.general[number].to_le_bytes()[..len].to_vec(),
        Source::Constant(value) => value.to_le_bytes().to_vec(),
        // A part that an image does not have is as it is at first.
        Source::Image(at, len) => image.get(at..at + len).map_or(vec![0; len], <[u8]>::to_vec),
        Source::X87(part) => x87(part, image).to_le_bytes().to_vec(),
        Source::Syscall => {
            let number = registers.in_syscall.map_or(u64::MAX, u64::from);
            number.to_le_bytes().to_vec()
        }
    }
}

fn x87(part: X87, image: &[u8]) -> u32 {
    /// The control word of a unit that was never used.
    const FIRST_CONTROL: u32 = 0x37f;
    const ALL_EMPTY: u32 = 0xffff;
    let half = |at: usize| {
        let bytes = image.get(at..at + 2).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from(u16::from_le_bytes(*bytes)))
    };
    let is_used = image.get(USED_PARTS).is_none_or(|parts| parts & 1 != 0);
    match part {
        X87::Control if !is_used => FIRST_CONTROL,
        X87::Tags if !is_used => ALL_EMPTY,
        X87::Control => half(0),
        X87::Status => half(2),
        X87::Tags => tags(image),
        X87::Opcode => half(6),
        X87::InstructionOffset => half(8) | half(10) << 16,
        X87::InstructionSegment => half(12),
        X87::OperandOffset => half(16) | half(18) << 16,
        X87::OperandSegment => half(20),
    }
}

/// The tag word in full: two bits a register, by what is in it.
fn tags(image: &[u8]) -> u32 {
    const VALID: u32 = 0;
    const ZERO: u32 = 1;
    const SPECIAL: u32 = 2;
    const EMPTY: u32 = 3;
    let top = usize::from(image.get(3).copied().unwrap_or(0) >> 3 & 7);
    let in_use = image.get(4).copied().unwrap_or(0);
    (0..8).fold(0, |word, physical: usize| {
        let at = ST + 16 * ((physical + 8 - top) % 8);
        let tag = match image.get(at..at + 10).and_then(|bytes| bytes.first_chunk::<10>()) {
            Some(bytes) if in_use >> physical & 1 != 0 => {
                let exponent = u16::from_le_bytes([bytes[8], bytes[9]]) & 0x7fff;
                let is_normal = bytes[7] & 0x80 != 0;
                match exponent {
                    0 if bytes[..8] == [0; 8] => ZERO,
                    0 | 0x7fff => SPECIAL,
                    _ if is_normal => VALID,
                    _ => SPECIAL,
                }
            }
            _ => EMPTY,
        };
        word | tag << (2 * physical)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        let mut general = [0; register::COUNT];
        for (number, value) in general.iter_mut().enumerate() {
            *value = number as u64 + 1;
        }
        let vectors = (0..2696).map(|index| index as u8).collect();
        Registers { thread: 1, running: true, in_syscall: Some(7), general, vectors }
    }

    fn layout() -> Layout {
        Layout::with_parts(|part| match part {
            YMM_UPPER => Some(576),
            MASKS => Some(1088),
            ZMM_UPPER => Some(1152),
            ZMM_HIGH => Some(1664),
            _ => None,
        })
    }

    fn named(name: &str) -> Vec<u8> {
        let layout = layout();
        let number = layout.all().position(|described| described.name == name).unwrap();
        layout.value(number as u64, &registers()).unwrap()
    }

    #[test]
    fn values_have_the_sizes_of_the_description() {
        let layout = layout();
        let bits: u32 = layout.all().map(|described| described.bits).sum();
        assert_eq!(layout.values(&registers()).len() as u32 * 8, bits);
        assert_eq!(layout.value(10_000, &registers()), None);
    }

    #[test]
    fn names_are_unique_and_described() {
        let layout = layout();
        let description = layout.description();
        let mut names: Vec<_> = layout.all().map(|described| &described.name).collect();
        for name in &names {
            assert!(description.contains(&format!("\"{name}\"")), "{name}");
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(count, 16 + 8 + 8 + 8 + 17 + 1 + 2 + 16 + 8 + 16 + 48);
    }

    #[test]
    fn registers_come_from_their_places() {
        assert_eq!(named("rbx"), 4u64.to_le_bytes());
        assert_eq!(named("rip"), 17u64.to_le_bytes());
        assert_eq!(named("orig_rax"), 7u64.to_le_bytes());
        assert_eq!(named("xmm1")[0], 176);
        assert_eq!(named("ymm17h")[0], (1664u32 + 64 + 16) as u8);
        assert_eq!(named("k1")[0], 1096u32 as u8);
    }

    #[test]
    fn expedited_registers_are_those_that_unwinding_needs() {
        let layout = layout();
        let names: Vec<_> = layout.all().map(|described| described.name.as_str()).collect();
        let expedited: Vec<_> = EXPEDITED.iter().map(|&number| names[number as usize]).collect();
        assert_eq!(expedited, ["rbp", "rsp", "rip"]);
    }

    #[test]
    fn tags_say_what_registers_hold() {
        let mut image = vec![0; 576];
        assert_eq!(x87(X87::Tags, &image), 0xffff);
        image[USED_PARTS] = 1;
        // The top is 7: register 7 is the first on the stack and holds zero, register 0 the second and holds one.
        image[3] = 7 << 3;
        image[4] = 0x81;
        image[ST + 16 + 7] = 0x80;
        image[ST + 16 + 8..ST + 16 + 10].copy_from_slice(&0x3fffu16.to_le_bytes());
        assert_eq!(x87(X87::Tags, &image), 0b01_11_11_11_11_11_11_00);
    }
}
