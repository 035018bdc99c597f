//! Whether this processor can replay a recording.
//!
//! The problem: a replay executes the recorded code itself, so that the processor must know every instruction that
//! the run executed, and hold every part of the vector state that the run used. A recording may come from a
//! processor that knows more.
//!
//! The strategy: the head of a recording lists the features of its processor. Nearly always this one has all of
//! them, and nothing else is looked at. Otherwise the executed code, which is in the recording, is decoded to find out
//! which of the missing features it used, and the images of vector state are asked which parts they hold. A recording
//! of a larger processor that used nothing of what is missing here replays.
//!
//! Invariants:
//! 1. What is refused is refused before a replay process starts, with the names that `/proc/cpuinfo` and `retro info` use.
//! 2. Features are only missed where they matter: instructions whose outcome is in the log (`cpuid`, `rdrand`, `rdtsc`,
//!    `rdpid`, `xgetbv`, ...), and those that are no-operations on processors without them, are not.
//! 3. Chunks that cannot be read are left out: whoever needs one for a replay is told why.
//!
//! What two processors compute differently with the same instruction (`rcpps`, flags that are undefined) is not known
//! here; the comparisons of the replay find it.

use std::arch::x86_64::__cpuid_count;
use std::collections::BTreeSet;

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction, Mnemonic};
use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::{Machine, Recording};

/// Why a recording cannot be replayed on this processor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The processor lacks features that the run used.
    #[error(
        "this recording used {}, which this processor lacks: replay it on one that has {}",
        listed(.0), if .0.len() == 1 { "it" } else { "them" }
    )]
    Lacks(Vec<&'static str>),
    /// The processor takes instructions of the run for others.
    #[error(
        "this recording used {}, which this processor takes for other instructions than the processor it was made on: \
         replay it on one like that (`retro info` names it)",
        listed(.0)
    )]
    Misreads(Vec<String>),
    /// The processor keeps parts of the vector state elsewhere in its image.
    #[error(
        "this recording holds the state of {} where this processor does not look for it: replay it on one of the vendor \
         of the processor it was made on (`retro info` names it)",
        listed(.0)
    )]
    Rearranges(Vec<&'static str>),
}

/// Names in a sentence.
fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Refuses a recording that this processor cannot replay.
pub(crate) fn check(recording: &Recording) -> Result<(), Unfit> {
    let mut search = Search::new(&recording.head().machine, Processor::this());
    if search.is_needless() {
        return Ok(());
    }
    for process in recording.processes() {
        for stream in Stream::ALL {
            for segment in recording.segments(process.summary.log, stream) {
                let Ok(chunk) = recording.read_chunk(segment) else { continue };
                for (_, event) in chunk.events().flatten() {
                    match event {
                        Event::Code { address, bytes } => search.look_at_code(address, bytes),
                        Event::ThreadState { image, .. } | Event::Vectors { image } => {
                            search.look_at_image(image);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    search.finish()
}

/// The vector state that instructions of a feature need, besides what every x86-64 processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Avx,
    Avx512,
}

/// Where `cpuid` tells of a feature: leaf, subleaf, register (`eax` is 0) and bit.
type Place = (u32, u32, usize, u32);

/// A feature as the decoder, `/proc/cpuinfo` and `cpuid` know it.
type Feature = (CpuidFeature, &'static str, Place, Needs);

/// Every feature that makes a difference to code in user space and is not part of every x86-64 processor.
const FEATURES: [Feature; 68] = {
    use CpuidFeature::*;
    use Needs::{Avx, Avx512, Nothing};
    const EXTENDED: u32 = 0x8000_0001;
    [
        (SSE3, "pni", (1, 0, 2, 0), Nothing),
        (PCLMULQDQ, "pclmulqdq", (1, 0, 2, 1), Nothing),
        (SSSE3, "ssse3", (1, 0, 2, 9), Nothing),
        (FMA, "fma", (1, 0, 2, 12), Avx),
        (CMPXCHG16B, "cx16", (1, 0, 2, 13), Nothing),
        (SSE4_1, "sse4_1", (1, 0, 2, 19), Nothing),
        (SSE4_2, "sse4_2", (1, 0, 2, 20), Nothing),
        (MOVBE, "movbe", (1, 0, 2, 22), Nothing),
        (POPCNT, "popcnt", (1, 0, 2, 23), Nothing),
        (AES, "aes", (1, 0, 2, 25), Nothing),
        (XSAVE, "xsave", (1, 0, 2, 26), Nothing),
        (AVX, "avx", (1, 0, 2, 28), Avx),
        (F16C, "f16c", (1, 0, 2, 29), Avx),
        (FSGSBASE, "fsgsbase", (7, 0, 1, 0), Nothing),
        (BMI1, "bmi1", (7, 0, 1, 3), Nothing),
        (AVX2, "avx2", (7, 0, 1, 5), Avx),
        (BMI2, "bmi2", (7, 0, 1, 8), Nothing),
        (AVX512F, "avx512f", (7, 0, 1, 16), Avx512),
        (AVX512DQ, "avx512dq", (7, 0, 1, 17), Avx512),
        (ADX, "adx", (7, 0, 1, 19), Nothing),
        (AVX512_IFMA, "avx512ifma", (7, 0, 1, 21), Avx512),
        (CLFLUSHOPT, "clflushopt", (7, 0, 1, 23), Nothing),
        (CLWB, "clwb", (7, 0, 1, 24), Nothing),
        (AVX512PF, "avx512pf", (7, 0, 1, 26), Avx512),
        (AVX512ER, "avx512er", (7, 0, 1, 27), Avx512),
        (AVX512CD, "avx512cd", (7, 0, 1, 28), Avx512),
        (SHA, "sha_ni", (7, 0, 1, 29), Nothing),
        (AVX512BW, "avx512bw", (7, 0, 1, 30), Avx512),
        (AVX512VL, "avx512vl", (7, 0, 1, 31), Avx512),
        (AVX512_VBMI, "avx512vbmi", (7, 0, 2, 1), Avx512),
        (PKU, "pku", (7, 0, 2, 3), Nothing),
        (WAITPKG, "waitpkg", (7, 0, 2, 5), Nothing),
        (AVX512_VBMI2, "avx512_vbmi2", (7, 0, 2, 6), Avx512),
        (GFNI, "gfni", (7, 0, 2, 8), Nothing),
        (VAES, "vaes", (7, 0, 2, 9), Avx),
        (VPCLMULQDQ, "vpclmulqdq", (7, 0, 2, 10), Avx),
        (AVX512_VNNI, "avx512_vnni", (7, 0, 2, 11), Avx512),
        (AVX512_BITALG, "avx512_bitalg", (7, 0, 2, 12), Avx512),
        (AVX512_VPOPCNTDQ, "avx512_vpopcntdq", (7, 0, 2, 14), Avx512),
        (MOVDIRI, "movdiri", (7, 0, 2, 27), Nothing),
        (MOVDIR64B, "movdir64b", (7, 0, 2, 28), Nothing),
        (ENQCMD, "enqcmd", (7, 0, 2, 29), Nothing),
        (AVX512_4VNNIW, "avx512_4vnniw", (7, 0, 3, 2), Avx512),
        (AVX512_4FMAPS, "avx512_4fmaps", (7, 0, 3, 3), Avx512),
        (AVX512_VP2INTERSECT, "avx512_vp2intersect", (7, 0, 3, 8), Avx512),
        (SERIALIZE, "serialize", (7, 0, 3, 14), Nothing),
        (AMX_BF16, "amx_bf16", (7, 0, 3, 22), Nothing),
        (AVX512_FP16, "avx512_fp16", (7, 0, 3, 23), Avx512),
        (AMX_TILE, "amx_tile", (7, 0, 3, 24), Nothing),
        (AMX_INT8, "amx_int8", (7, 0, 3, 25), Nothing),
        (SHA512, "sha512", (7, 1, 0, 0), Avx),
        (SM3, "sm3", (7, 1, 0, 1), Avx),
        (SM4, "sm4", (7, 1, 0, 2), Avx),
        (AVX_VNNI, "avx_vnni", (7, 1, 0, 4), Avx),
        (AVX512_BF16, "avx512_bf16", (7, 1, 0, 5), Avx512),
        (CMPCCXADD, "cmpccxadd", (7, 1, 0, 7), Nothing),
        (AMX_FP16, "amx_fp16", (7, 1, 0, 21), Nothing),
        (AVX_IFMA, "avx_ifma", (7, 1, 0, 23), Avx),
        (XSAVEOPT, "xsaveopt", (0xd, 1, 0, 0), Nothing),
        (XSAVEC, "xsavec", (0xd, 1, 0, 1), Nothing),
        (LZCNT, "abm", (EXTENDED, 0, 2, 5), Nothing),
        (SSE4A, "sse4a", (EXTENDED, 0, 2, 6), Nothing),
        (XOP, "xop", (EXTENDED, 0, 2, 11), Avx),
        (LWP, "lwp", (EXTENDED, 0, 2, 15), Nothing),
        (FMA4, "fma4", (EXTENDED, 0, 2, 16), Avx),
        (TBM, "tbm", (EXTENDED, 0, 2, 21), Nothing),
        (MONITORX, "mwaitx", (EXTENDED, 0, 2, 29), Nothing),
        (CLZERO, "clzero", (0x8000_0008, 0, 1, 0), Nothing),
    ]
};

/// Parts of the vector state, by their number in an image of `xsave`. The first two are part of every x86-64 processor.
const COMPONENTS: [(u32, &str); 9] = [
    (2, "avx"),
    (3, "mpx"),
    (4, "mpx"),
    (5, "avx512f"),
    (6, "avx512f"),
    (7, "avx512f"),
    (9, "pku"),
    (17, "amx_tile"),
    (18, "amx_tile"),
];

/// Instructions that a processor without the feature takes for others, and does not refuse.
const TAKEN_FOR_OTHERS: [(Mnemonic, &str); 2] =
    [(Mnemonic::Tzcnt, "bmi1"), (Mnemonic::Lzcnt, "abm")];

/// Where the word is in an image of `xsave` that says which parts it holds.
const PARTS_HELD: usize = 512;

/// What a replay depends on.
#[derive(Clone, Debug)]
struct Processor {
    vendor: String,
    features: BTreeSet<&'static str>,
    /// Parts of the vector state that it has, one bit each.
    components: u64,
    /// Where they are in an image, by number.
    offsets: [u32; 64],
}

impl Processor {
    fn this() -> Processor {
        let [_, b, c, d] = leaf(0, 0);
        let vendor = [b, d, c].map(u32::to_le_bytes).concat();
        let [low, _, _, high] = leaf(0xd, 0);
        let components = u64::from(low) | u64::from(high) << 32;
        let held = |component: u32| components & 1 << component != 0;
        let offsets = std::array::from_fn(|number| match number as u32 {
            component @ 2.. if held(component) => leaf(0xd, component)[1],
            _ => 0,
        });
        Processor {
            vendor: String::from_utf8_lossy(&vendor).into_owned(),
            features: own_features(),
            components,
            offsets,
        }
    }

    /// Whether it keeps a part of the state where another vendor's processors keep it.
    fn keeps_as(&self, vendor: &str, component: u32) -> bool {
        self.vendor == vendor || Some(self.offsets[component as usize]) == offset(vendor, component)
    }
}

/// What `cpuid` says; zeroes if it does not go so far.
fn leaf(number: u32, subleaf: u32) -> [u32; 4] {
    let highest = __cpuid_count(number & 0x8000_0000, 0).eax;
    if number > highest {
        return [0; 4];
    }
    let answer = __cpuid_count(number, subleaf);
    [answer.eax, answer.ebx, answer.ecx, answer.edx]
}

fn own_features() -> BTreeSet<&'static str> {
    // These two ask the system as well, which has to switch the state.
    let [avx, avx512] = [is_x86_feature_detected!("avx"), is_x86_feature_detected!("avx512f")];
    let mut present = BTreeSet::new();
    // Neighbours in the table are told of by the same leaf; on a virtual machine each question is expensive.
    for neighbours in FEATURES.chunk_by(|a, b| (a.2.0, a.2.1) == (b.2.0, b.2.1)) {
        let (number, subleaf, ..) = neighbours[0].2;
        let answer = leaf(number, subleaf);
        for (_, name, (_, _, register, bit), needs) in neighbours {
            let is_usable = match needs {
                Needs::Nothing => true,
                Needs::Avx => avx,
                Needs::Avx512 => avx512,
            };
            if is_usable && answer[*register] & 1 << bit != 0 {
                present.insert(*name);
            }
        }
    }
    present
}

/// Where processors of a vendor keep a part of the state.
fn offset(vendor: &str, component: u32) -> Option<u32> {
    let offsets: &[(u32, u32)] = match vendor {
        "GenuineIntel" => &[
            (2, 576),
            (3, 960),
            (4, 1024),
            (5, 1088),
            (6, 1152),
            (7, 1664),
            (9, 2688),
            (17, 2752),
            (18, 2816),
        ],
        "AuthenticAMD" | "HygonGenuine" => &[(2, 576), (5, 832), (6, 896), (7, 1408), (9, 2432)],
        _ => &[(2, 576)],
    };
    offsets.iter().find(|(number, _)| *number == component).map(|&(_, offset)| offset)
}

/// How a vendor's processors read what others read differently.
fn decoder_options(vendor: &str) -> u32 {
    match vendor {
        "AuthenticAMD" | "HygonGenuine" => DecoderOptions::AMD,
        _ => DecoderOptions::NONE,
    }
}

/// Looks for what a recording needs and this processor does not offer.
#[derive(Debug)]
struct Search {
    own: Processor,
    /// Of the processor that the recording was made on.
    vendor: String,
    /// Features that the recording's processor has, or may have, and this one has not.
    lacking: BTreeSet<&'static str>,
    /// Instructions that the recording's processor took for others and this one does not.
    misread: Vec<Mnemonic>,
    used: BTreeSet<&'static str>,
    misread_used: BTreeSet<String>,
    parts_held: u64,
}

impl Search {
    fn new(recorded: &Machine, own: Processor) -> Search {
        // A machine that did not tell its features may have had any.
        let is_known = !recorded.cpu_features.is_empty();
        let had = |name: &str| recorded.cpu_features.iter().any(|feature| feature == name);
        let lacking = FEATURES.iter().map(|&(_, name, ..)| name);
        let lacking =
            lacking.filter(|name| !own.features.contains(name) && (had(name) || !is_known));
        let misread = TAKEN_FOR_OTHERS
            .iter()
            .filter(|(_, name)| is_known && !had(name) && own.features.contains(name));
        let vendor = match recorded.cpu_vendor.as_str() {
            "" => own.vendor.clone(),
            known => known.to_owned(),
        };
        Search {
            lacking: lacking.collect(),
            misread: misread.map(|&(mnemonic, _)| mnemonic).collect(),
            own,
            vendor,
            used: BTreeSet::new(),
            misread_used: BTreeSet::new(),
            parts_held: 0,
        }
    }

    /// Whether nothing can be found.
    fn is_needless(&self) -> bool {
        self.lacking.is_empty() && self.misread.is_empty() && self.vendor == self.own.vendor
    }

    /// Takes in executed code, which begins with an instruction.
    fn look_at_code(&mut self, address: u64, bytes: &[u8]) {
        let [theirs, ours] = [&self.vendor, &self.own.vendor].map(|vendor| decoder_options(vendor));
        let mut decoder = Decoder::with_ip(64, bytes, address, theirs);
        while decoder.can_decode() {
            let at = decoder.position();
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return;
            }
            self.look_at_instruction(&instruction);
            if theirs != ours {
                let other = Decoder::with_ip(64, &bytes[at..], instruction.ip(), ours).decode();
                if (other.code(), other.len()) != (instruction.code(), instruction.len()) {
                    self.misread_used.insert(name_of(&instruction));
                }
            }
        }
    }

    fn look_at_instruction(&mut self, instruction: &Instruction) {
        // Its outcome is in the log.
        if instruction.mnemonic() == Mnemonic::Xgetbv {
            return;
        }
        for feature in instruction.cpuid_features() {
            let known = FEATURES.iter().find(|(known, ..)| known == feature);
            if let Some(&(_, name, ..)) = known.filter(|(_, name, ..)| self.lacking.contains(name))
            {
                self.used.insert(name);
            }
        }
        if self.misread.contains(&instruction.mnemonic()) {
            self.misread_used.insert(name_of(instruction));
        }
    }

    /// Takes in an image of `xsave` in standard form.
    fn look_at_image(&mut self, image: &[u8]) {
        if let Some(word) = image.get(PARTS_HELD..).and_then(|rest| rest.first_chunk()) {
            self.parts_held |= u64::from_le_bytes(*word);
        }
    }

    fn finish(mut self) -> Result<(), Unfit> {
        let held = COMPONENTS.iter().filter(|(number, _)| self.parts_held & 1 << number != 0);
        let (have, lack): (Vec<_>, Vec<_>) =
            held.partition(|(number, _)| self.own.components & 1 << number != 0);
        self.used.extend(lack.into_iter().map(|(_, name)| name));
        if !self.used.is_empty() {
            return Err(Unfit::Lacks(self.used.into_iter().collect()));
        }
        if !self.misread_used.is_empty() {
            return Err(Unfit::Misreads(self.misread_used.into_iter().collect()));
        }
        let moved =
            have.into_iter().filter(|(number, _)| !self.own.keeps_as(&self.vendor, *number));
        let moved: BTreeSet<&'static str> = moved.map(|(_, name)| name).collect();
        if !moved.is_empty() {
            return Err(Unfit::Rearranges(moved.into_iter().collect()));
        }
        Ok(())
    }
}

fn name_of(instruction: &Instruction) -> String {
    format!("{:?}", instruction.mnemonic()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTEL: &str = "GenuineIntel";
    const AMD: &str = "AuthenticAMD";

    fn machine(vendor: &str, features: &[&str]) -> Machine {
        Machine {
            cpu_vendor: vendor.to_owned(),
            cpu_features: features.iter().map(|name| (*name).to_owned()).collect(),
            ..Machine::default()
        }
    }

    fn processor(vendor: &str, features: &[&'static str]) -> Processor {
        Processor {
            vendor: vendor.to_owned(),
            features: features.iter().copied().collect(),
            components: 0b111,
            offsets: std::array::from_fn(|number| offset(vendor, number as u32).unwrap_or(0)),
        }
    }

    /// What of the features that one processor has and another has not some code uses.
    fn missing(recorded: &[&str], own: &[&'static str], code: &[&[u8]]) -> Vec<&'static str> {
        let mut search = Search::new(&machine(INTEL, recorded), processor(INTEL, own));
        for (number, bytes) in code.iter().enumerate() {
            search.look_at_code(0x40_0000 + 64 * number as u64, bytes);
        }
        match search.finish() {
            Ok(()) => Vec::new(),
            Err(Unfit::Lacks(names)) => names,
            Err(other) => panic!("{other}"),
        }
    }

    const NOP: &[u8] = &[0x90];
    /// `vaddps zmm0, zmm1, zmm2`
    const ZMM: &[u8] = &[0x62, 0xf1, 0x74, 0x48, 0x58, 0xc2];
    /// `vaddps xmm16, xmm1, xmm2`
    const XMM16: &[u8] = &[0x62, 0xe1, 0x74, 0x08, 0x58, 0xc2];
    /// `vpaddb zmm0, zmm1, zmm2`
    const BYTES: &[u8] = &[0x62, 0xf1, 0x75, 0x48, 0xfc, 0xc2];
    /// `v4fmaddps zmm0, zmm4, [rax]`
    const FOUR: &[u8] = &[0x62, 0xf2, 0x5f, 0x48, 0x9a, 0x00];
    /// `tzcnt eax, ecx` and `lzcnt eax, ecx`
    const TZCNT: &[u8] = &[0xf3, 0x0f, 0xbc, 0xc1];
    const LZCNT: &[u8] = &[0xf3, 0x0f, 0xbd, 0xc1];

    #[test]
    fn nothing_is_looked_at_where_nothing_is_missing() {
        let own = processor(AMD, &["avx", "avx2", "bmi1", "abm"]);
        let search = |features: &[&str]| Search::new(&machine(AMD, features), own.clone());
        assert!(search(&["bmi1", "abm", "avx"]).is_needless());
        // What code cannot use is nobody's concern.
        assert!(search(&["bmi1", "abm", "smep", "rdrand", "something_new"]).is_needless());
        assert!(!search(&["bmi1", "abm", "avx512f"]).is_needless());
        assert!(!search(&[]).is_needless());
        assert!(!Search::new(&machine(INTEL, &["bmi1", "abm"]), own.clone()).is_needless());
    }

    #[test]
    fn only_what_is_used_is_missed() {
        let recorded = ["avx512f", "avx512bw", "avx512vl", "avx512_4fmaps", "sha_ni"];
        assert_eq!(missing(&recorded, &[], &[NOP]), [""; 0]);
        assert_eq!(missing(&recorded, &[], &[NOP, ZMM]), ["avx512f"]);
        assert_eq!(missing(&recorded, &[], &[ZMM, BYTES]), ["avx512bw", "avx512f"]);
        assert_eq!(missing(&recorded, &["avx512f"], &[ZMM, XMM16]), ["avx512vl"]);
        assert_eq!(missing(&recorded, &["avx512f", "avx512vl"], &[ZMM, XMM16]), [""; 0]);
        assert_eq!(missing(&recorded, &["avx512f"], &[FOUR]), ["avx512_4fmaps"]);
        // In the middle of a block, and behind another.
        let block = [NOP, ZMM, NOP].concat();
        assert_eq!(missing(&recorded, &[], &[NOP, &block]), ["avx512f"]);
    }

    /// Code that neither processor can execute ended in a signal, and does again.
    #[test]
    fn what_the_recording_had_not_either_is_not_missed() {
        assert_eq!(missing(&["avx"], &["avx"], &[ZMM]), [""; 0]);
        assert_eq!(missing(&[], &[], &[ZMM]), ["avx512f"], "unless it did not tell");
    }

    #[test]
    fn instructions_of_all_kinds_are_known() {
        let cases: [(&[u8], &str); 18] = [
            (&[0xf2, 0x0f, 0xf0, 0x00], "pni"),
            (&[0x66, 0x0f, 0x38, 0x00, 0xc1], "ssse3"),
            (&[0x66, 0x0f, 0x38, 0x10, 0xc1], "sse4_1"),
            (&[0xf2, 0x0f, 0x38, 0xf1, 0xc1], "sse4_2"),
            (&[0xf3, 0x0f, 0xb8, 0xc1], "popcnt"),
            (&[0x0f, 0x38, 0xf0, 0x00], "movbe"),
            (&[0x48, 0x0f, 0xc7, 0x08], "cx16"),
            (&[0x66, 0x0f, 0x38, 0xdc, 0xc1], "aes"),
            (&[0x66, 0x0f, 0x3a, 0x44, 0xc1, 0x00], "pclmulqdq"),
            (&[0x0f, 0x38, 0xc8, 0xc1], "sha_ni"),
            (&[0xc5, 0xf8, 0x58, 0xc1], "avx"),
            (&[0xc4, 0xe2, 0x71, 0x98, 0xc2], "fma"),
            (&[0xc5, 0xf5, 0xfc, 0xc2], "avx2"),
            (&[0xc4, 0xe2, 0x78, 0xf2, 0xc1], "bmi1"),
            (&[0xc4, 0xe2, 0x7b, 0xf5, 0xc1], "bmi2"),
            (&[0x66, 0x0f, 0x38, 0xf6, 0xc1], "adx"),
            (&[0x66, 0x0f, 0x38, 0xcf, 0xc1], "gfni"),
            (&[0x0f, 0xc7, 0x20], "xsavec"),
        ];
        for (bytes, name) in cases {
            assert_eq!(missing(&[name], &[], &[bytes]), [name], "{bytes:x?}");
            assert_eq!(missing(&[name], &[name], &[bytes]), [""; 0], "{bytes:x?}");
        }
    }

    #[test]
    fn outcomes_that_the_log_has_are_not_missed() {
        let rdrand: &[u8] = &[0x0f, 0xc7, 0xf0];
        let rdpid: &[u8] = &[0xf3, 0x0f, 0xc7, 0xf8];
        let xgetbv: &[u8] = &[0x0f, 0x01, 0xd0];
        let endbr: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
        let recorded = ["rdrand", "rdpid", "xsave", "ibt"];
        assert_eq!(missing(&recorded, &[], &[rdrand, rdpid, xgetbv, endbr]), [""; 0]);
    }

    /// No bytes make it fail, and what cannot be decoded hides nothing but what is behind it.
    #[test]
    fn nonsense_is_no_code() {
        assert_eq!(missing(&["avx512f"], &[], &[&[0x06, 0x62], &ZMM[..4], &[]]), [""; 0]);
        let mut search = Search::new(&machine(INTEL, &["avx512f"]), processor(INTEL, &[]));
        search.look_at_code(u64::MAX - 2, ZMM);
        assert!(search.finish().is_err());
    }

    #[test]
    fn instructions_that_old_processors_take_for_others() {
        let search = |recorded: &[&str], own: &[&'static str], code: &[u8]| {
            let mut search = Search::new(&machine(INTEL, recorded), processor(INTEL, own));
            search.look_at_code(0x1000, code);
            search.finish()
        };
        assert_eq!(search(&["bmi1"], &[], TZCNT), Err(Unfit::Lacks(vec!["bmi1"])));
        assert_eq!(search(&["abm"], &[], LZCNT), Err(Unfit::Lacks(vec!["abm"])));
        let misread = Unfit::Misreads(vec!["tzcnt".to_owned()]);
        assert_eq!(search(&["sse2"], &["bmi1"], TZCNT), Err(misread));
        assert_eq!(search(&["sse2"], &["bmi1"], LZCNT), Ok(()));
    }

    /// `66 e9`: one vendor reads two bytes of displacement, the other four.
    #[test]
    fn instructions_that_vendors_read_differently() {
        let jump: &[u8] = &[0x66, 0xe9, 0, 0, 0, 0];
        let read = |recorded, own, code| {
            let mut search = Search::new(&machine(recorded, &["avx"]), processor(own, &["avx"]));
            search.look_at_code(0x1000, code);
            search.finish()
        };
        assert_eq!(read(INTEL, INTEL, jump), Ok(()));
        assert_eq!(read(AMD, AMD, jump), Ok(()));
        assert_eq!(read(INTEL, AMD, jump), Err(Unfit::Misreads(vec!["jmp".to_owned()])));
        assert_eq!(read(AMD, INTEL, jump), Err(Unfit::Misreads(vec!["jmp".to_owned()])));
        assert_eq!(read(AMD, INTEL, NOP), Ok(()));
    }

    fn held(recorded: &str, own: Processor, parts: u64) -> Result<(), Unfit> {
        let mut search = Search::new(&machine(recorded, &["avx512f", "avx"]), own);
        let mut image = vec![0; 2696];
        image[PARTS_HELD..PARTS_HELD + 8].copy_from_slice(&parts.to_le_bytes());
        search.look_at_image(&image);
        search.look_at_image(&image[..PARTS_HELD + 7]);
        search.look_at_image(&[]);
        search.finish()
    }

    #[test]
    fn vector_state_must_have_a_place() {
        assert_eq!(held(INTEL, processor(INTEL, &["avx"]), 0b111), Ok(()));
        let lacks = Unfit::Lacks(vec!["avx512f"]);
        assert_eq!(held(INTEL, processor(INTEL, &["avx"]), 0b1110_0111), Err(lacks));
        let more = Processor { components: 0b10_1110_0111, ..processor(INTEL, &["avx"]) };
        assert_eq!(held(INTEL, more, 0b10_1110_0111), Ok(()));
    }

    #[test]
    fn vector_state_must_have_the_same_place() {
        let amd = Processor { components: 0b10_1110_0111, ..processor(AMD, &["avx", "avx512f"]) };
        assert_eq!(held(AMD, amd.clone(), 0b10_1110_0111), Ok(()));
        assert_eq!(held(INTEL, amd.clone(), 0b111), Ok(()), "vendors agree on avx");
        let moved = Unfit::Rearranges(vec!["avx512f", "pku"]);
        assert_eq!(held(INTEL, amd.clone(), 0b10_1110_0111), Err(moved));
        let unknown = Unfit::Rearranges(vec!["pku"]);
        assert_eq!(held("Another", amd, 0b10_0000_0111), Err(unknown));
    }

    #[test]
    fn refusals_name_what_is_missing() {
        let text = |names: &[&'static str]| Unfit::Lacks(names.to_vec()).to_string();
        assert_eq!(
            text(&["avx512bw", "avx512f"]),
            "this recording used avx512bw and avx512f, which this processor lacks: replay it on one that has them"
        );
        assert!(text(&["a", "b", "c"]).contains("used a, b and c, which"));
        assert!(text(&["a"]).ends_with("one that has it"));
    }

    /// What the kernel says of this processor and what it says itself is the same, as far as both know.
    #[test]
    fn this_processor_is_known() {
        let listed = Machine::this();
        let own = Processor::this();
        assert_eq!(own.vendor, listed.cpu_vendor);
        let mut kernel: Vec<&str> = listed.cpu_features.iter().map(String::as_str).collect();
        kernel.retain(|name| FEATURES.iter().any(|(_, known, ..)| known == name));
        let unknown = kernel.iter().find(|name| !own.features.contains(*name));
        assert_eq!(unknown, None);
        assert_eq!(Search::new(&listed, own).lacking, BTreeSet::new());
    }
}
