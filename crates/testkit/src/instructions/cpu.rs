//! What the processor under the test offers: instruction-set extensions and the XSAVE layout.
//!
//! The catalogue asks [`Cpu::has`] for every feature the decoder attaches to an instruction. A
//! feature that is not in the table counts as absent, so an unknown extension is left out rather
//! than tested as `#UD` by accident.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use iced_x86::CpuidFeature;

/// State components that are loaded and compared: x87, SSE, AVX, opmask, ZMM_Hi256, Hi16_ZMM.
const COMPARED_COMPONENTS: u64 = 0b1110_0111;

/// One state component of the XSAVE area.
#[derive(Clone, Copy, Debug, Default)]
pub struct Component {
    /// Offset in the standard format.
    pub offset: usize,
    /// Size in bytes; zero when the processor lacks it.
    pub size: usize,
    /// Whether the compacted format aligns it to 64 bytes.
    pub aligned: bool,
}

/// The processor's features and extended-state layout.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Whether branches with an operand-size prefix and the like follow AMD's rules.
    pub is_amd: bool,
    /// Whether user code may execute `rdfsbase` and its kin.
    pub has_fsgsbase: bool,
    /// The state components the tests load and save.
    pub components: u64,
    /// Layout of the components, by number; 0 and 1 are the legacy area.
    pub layout: [Component; 8],
    /// Bytes of an XSAVE area that holds `components`, a multiple of 64.
    pub area_size: usize,
    leaf_1: [u32; 4],
    leaf_7: [u32; 4],
    leaf_7_1: [u32; 4],
    leaf_d_1: u32,
    leaf_ext_1: [u32; 4],
    leaf_ext_8: u32,
    user_components: u64,
}

impl Cpu {
    /// Reads the processor this runs on.
    ///
    /// # Panics
    /// When it has no XSAVE; every x86-64 processor since 2011 has.
    pub fn detect() -> Cpu {
        let registers = |leaf: u32, sub: u32| {
            let r = __cpuid_count(leaf, sub);
            [r.eax, r.ebx, r.ecx, r.edx]
        };
        let leaf_1 = registers(1, 0);
        assert!(leaf_1[2] & 1 << 27 != 0, "the instruction tests need XSAVE");
        // SAFETY: OSXSAVE was just found set, so XGETBV with index 0 is enabled.
        let user_components = unsafe { read_xcr0() };
        let components = user_components & COMPARED_COMPONENTS;
        let mut layout = [Component::default(); 8];
        let mut area_size = 576;
        for (number, component) in layout.iter_mut().enumerate().skip(2) {
            if components & 1 << number != 0 {
                let [size, offset, flags, _] = registers(0xd, number as u32);
                *component = Component {
                    offset: offset as usize,
                    size: size as usize,
                    aligned: flags & 2 != 0,
                };
                area_size = area_size.max(component.offset + component.size);
            }
        }
        // SAFETY: getauxval only reads the process's auxiliary vector.
        let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
        Cpu {
            is_amd: __cpuid(0).ebx == u32::from_le_bytes(*b"Auth"),
            has_fsgsbase: hwcap2 & 2 != 0,
            components,
            layout,
            area_size: area_size.next_multiple_of(64),
            leaf_1,
            leaf_7: registers(7, 0),
            leaf_7_1: registers(7, 1),
            leaf_d_1: registers(0xd, 1)[0],
            leaf_ext_1: registers(0x8000_0001, 0),
            leaf_ext_8: registers(0x8000_0008, 0)[1],
            user_components,
        }
    }

    /// Whether code may use the instructions of `feature`.
    pub fn has(&self, feature: CpuidFeature) -> bool {
        use CpuidFeature::*;
        let bit = |register: u32, bit: u32| register & 1 << bit != 0;
        let [_, _, c1, d1] = self.leaf_1;
        let [_, b7, c7, d7] = self.leaf_7;
        let [a71, _, _, d71] = self.leaf_7_1;
        let [_, _, c_ext, d_ext] = self.leaf_ext_1;
        let avx = self.user_components & 0b110 == 0b110;
        let avx512 = self.user_components & 0b1110_0110 == 0b1110_0110;
        match feature {
            INTEL8086 | INTEL186 | INTEL286 | INTEL386 | INTEL486 | X64 | CPUID | FPU | FPU287
            | FPU387 | MULTIBYTENOP | PAUSE | SYSCALL | TSC | MSR | SMM | RDPMC => true,
            // ENDBR and RDSSP are no-operations on processors that lack the extension.
            CET_IBT | CET_SS => true,
            CX8 => bit(d1, 8),
            SEP => bit(d1, 11),
            CMOV => bit(d1, 15),
            CLFSH => bit(d1, 19),
            MMX => bit(d1, 23),
            FXSR => bit(d1, 24),
            SSE => bit(d1, 25),
            SSE2 => bit(d1, 26),
            SSE3 => bit(c1, 0),
            PCLMULQDQ => bit(c1, 1),
            MONITOR => bit(c1, 3),
            SSSE3 => bit(c1, 9),
            FMA => avx && bit(c1, 12),
            CMPXCHG16B => bit(c1, 13),
            SSE4_1 => bit(c1, 19),
            SSE4_2 => bit(c1, 20),
            MOVBE => bit(c1, 22),
            POPCNT => bit(c1, 23),
            AES => bit(c1, 25),
            XSAVE => bit(c1, 27),
            AVX => avx && bit(c1, 28),
            F16C => avx && bit(c1, 29),
            RDRAND => bit(c1, 30),
            FSGSBASE => self.has_fsgsbase,
            BMI1 => bit(b7, 3),
            HLE => bit(b7, 4),
            AVX2 => avx && bit(b7, 5),
            BMI2 => bit(b7, 8),
            INVPCID => bit(b7, 10),
            RTM => bit(b7, 11),
            AVX512F => avx512 && bit(b7, 16),
            AVX512DQ => avx512 && bit(b7, 17),
            RDSEED => bit(b7, 18),
            ADX => bit(b7, 19),
            SMAP => bit(b7, 20),
            AVX512_IFMA => avx512 && bit(b7, 21),
            CLFLUSHOPT => bit(b7, 23),
            CLWB => bit(b7, 24),
            AVX512CD => avx512 && bit(b7, 28),
            SHA => bit(b7, 29),
            AVX512BW => avx512 && bit(b7, 30),
            AVX512VL => avx512 && bit(b7, 31),
            AVX512_VBMI => avx512 && bit(c7, 1),
            PKU => bit(c7, 4),
            WAITPKG => bit(c7, 5),
            AVX512_VBMI2 => avx512 && bit(c7, 6),
            GFNI => bit(c7, 8),
            VAES => avx && bit(c7, 9),
            VPCLMULQDQ => avx && bit(c7, 10),
            AVX512_VNNI => avx512 && bit(c7, 11),
            AVX512_BITALG => avx512 && bit(c7, 12),
            AVX512_VPOPCNTDQ => avx512 && bit(c7, 14),
            RDPID => bit(c7, 22),
            CLDEMOTE => bit(c7, 25),
            MOVDIRI => bit(c7, 27),
            MOVDIR64B => bit(c7, 28),
            AVX512_VP2INTERSECT => avx512 && bit(d7, 8),
            SERIALIZE => bit(d7, 14),
            AVX512_FP16 => avx512 && bit(d7, 23),
            SHA512 => avx && bit(a71, 0),
            SM3 => avx && bit(a71, 1),
            SM4 => avx && bit(a71, 2),
            RAO_INT => bit(a71, 3),
            AVX_VNNI => avx && bit(a71, 4),
            AVX512_BF16 => avx512 && bit(a71, 5),
            CMPCCXADD => bit(a71, 7),
            AVX_IFMA => avx && bit(a71, 23),
            AVX_VNNI_INT8 => avx && bit(d71, 4),
            AVX_NE_CONVERT => avx && bit(d71, 5),
            AVX_VNNI_INT16 => avx && bit(d71, 10),
            XSAVEOPT => bit(self.leaf_d_1, 0),
            XSAVEC => bit(self.leaf_d_1, 1),
            XSAVES => bit(self.leaf_d_1, 3),
            LZCNT => bit(c_ext, 5),
            SSE4A => bit(c_ext, 6),
            PREFETCHW => bit(c_ext, 8),
            XOP => avx && bit(c_ext, 11),
            FMA4 => avx && bit(c_ext, 16),
            TBM => bit(c_ext, 21),
            RDTSCP => bit(d_ext, 27),
            D3NOWEXT => bit(d_ext, 30),
            D3NOW => bit(d_ext, 31),
            CLZERO => bit(self.leaf_ext_8, 0),
            WBNOINVD => bit(self.leaf_ext_8, 9),
            _ => false,
        }
    }
}

/// # Safety
/// OSXSAVE must be set.
#[target_feature(enable = "xsave")]
unsafe fn read_xcr0() -> u64 {
    // SAFETY: the caller vouches for OSXSAVE; index 0 always exists.
    unsafe { _xgetbv(0) }
}
