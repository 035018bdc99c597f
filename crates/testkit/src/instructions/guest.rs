//! A guest: the executable that runs a list of cases.

use super::assembly::{Assembled, assemble};
use super::case::{CLIFF, Case, CaseGenerator};
use super::class::{Class, Plan};
use super::cpu::Cpu;
use super::dispatcher::{CASE_SIZE, DATA_SIZE, Parameters, dispatcher};
use super::elf::{EXECUTE, READ, Segment, WRITE, executable};
use super::layout::{Layout, Placement, SCRATCH_SIZE};
use super::random::Random;
use super::recipes::{COMPACTED_IMAGE, CONTROL_SLOTS, MXCSR_SLOTS, STANDARD_IMAGE};
use super::state::{Exceptions, compacted, image, mxcsr};
use anyhow::{Result, anyhow, ensure};

/// State images in a guest.
const IMAGES: usize = 48;
/// Bytes of code, all told.
const CODE_SIZE: u64 = 0x10_0000;
/// Where the bodies start, relative to the code.
const BODIES: u64 = 0x2000;

/// Cases and everything they start from.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Where the parts lie.
    pub layout: Layout,
    /// What it runs, in order.
    pub cases: Vec<Case>,
    /// Where each case's body is.
    pub bodies: Vec<(u64, Assembled)>,
    images: Vec<Vec<u8>>,
    template: Vec<u8>,
    read_only: Vec<u8>,
    uses_gs: bool,
    alignments: Random,
}

impl Guest {
    /// A guest of one class.
    ///
    /// # Errors
    /// When the code does not fit; a case that cannot be encoded is replaced by another.
    pub fn generate(
        cpu: &Cpu,
        plan: &Plan,
        class: Class,
        placement: Placement,
        seed: u64,
    ) -> Result<Guest> {
        let layout = Layout::new(placement);
        let mut random =
            Random::new(seed.wrapping_mul(64).wrapping_add(class as u64 * 2 + placement as u64));
        let images: Vec<_> =
            (0..IMAGES).map(|_| image(cpu, &mut random, plan.exceptions)).collect();
        let template = template(cpu, plan, &mut random);
        let mut read_only = vec![0; 0x1000];
        random.fill(&mut read_only);
        let code_end = layout.code + CODE_SIZE;
        let mut generator =
            CaseGenerator::new(cpu, layout, plan, random.bits(), images.len(), code_end);
        let mut cases = Vec::new();
        while cases.len() < plan.cases {
            let case = if random.percent(plan.traps) { generator.trap() } else { generator.case() };
            if assemble(&case.body, layout.code + CODE_SIZE / 2, layout.code).is_ok() {
                cases.push(case);
            }
        }
        let uses_gs = matches!(class, Class::Gs | Class::SegmentLoads);
        let bodies = Vec::new();
        Ok(Guest {
            layout,
            cases,
            bodies,
            images,
            template,
            read_only,
            uses_gs,
            alignments: random,
        })
    }

    /// The same guest with other cases.
    pub fn with_cases(&self, cases: Vec<Case>) -> Guest {
        Guest { cases, bodies: Vec::new(), ..self.clone() }
    }

    /// Assembles the executable.
    ///
    /// # Errors
    /// When a body cannot be encoded or the code does not fit.
    pub fn build(&mut self, cpu: &Cpu) -> Result<Vec<u8>> {
        let layout = self.layout;
        let mut constants = Vec::new();
        let image_addresses: Vec<u64> = self
            .images
            .iter()
            .map(|image| {
                constants.resize(constants.len().next_multiple_of(64), 0);
                let address = layout.constants + constants.len() as u64;
                constants.extend_from_slice(image);
                address
            })
            .collect();
        constants.resize(constants.len().next_multiple_of(64), 0);
        let template = layout.constants + constants.len() as u64;
        constants.extend_from_slice(&self.template);
        let cases = layout.constants + constants.len() as u64;
        let case_count = self.cases.len() as u64;
        let parameters = Parameters { layout, cases, case_count, template, uses_gs: self.uses_gs };
        let dispatcher =
            dispatcher(cpu, parameters).map_err(|error| anyhow!("the dispatcher: {error}"))?;
        let mut code = dispatcher.bytes;
        ensure!(code.len() as u64 <= BODIES, "the dispatcher is too large");
        code.resize(BODIES as usize, 0xcc);
        let mut alignments = self.alignments.clone();
        self.bodies.clear();
        for case in &self.cases {
            // Bodies start at any byte, so some straddle cache lines and pages.
            code.resize(code.len() + alignments.below(24) as usize, 0xcc);
            let address = layout.code + code.len() as u64;
            let body = assemble(&case.body, address, dispatcher.exit)?;
            code.extend_from_slice(&body.bytes);
            self.bodies.push((address, body));
            constants.extend_from_slice(&case.flags.to_le_bytes());
            for value in case.registers.iter().chain(&[
                case.fs_base,
                case.gs_base,
                address,
                image_addresses[case.image],
            ]) {
                constants.extend_from_slice(&value.to_le_bytes());
            }
        }
        debug_assert_eq!(constants.len() as u64, cases - layout.constants + CASE_SIZE * case_count);
        ensure!(code.len() as u64 + 16 <= CODE_SIZE, "the code is too large");
        code.resize(CODE_SIZE as usize - CLIFF.len(), 0xcc);
        code.extend_from_slice(&CLIFF);
        let segments = [
            Segment { address: layout.code, flags: READ | EXECUTE, bytes: code, size: 0 },
            Segment { address: layout.constants, flags: READ, bytes: constants, size: 0 },
            Segment {
                address: layout.data,
                flags: READ | WRITE,
                bytes: Vec::new(),
                size: DATA_SIZE,
            },
            Segment {
                address: layout.scratch,
                flags: READ | WRITE,
                bytes: self.template.clone(),
                size: 0,
            },
            Segment {
                address: layout.read_only,
                flags: READ,
                bytes: self.read_only.clone(),
                size: 0,
            },
        ];
        Ok(executable(layout.code, &segments))
    }
}

/// What the scratch area holds at the start of a case.
fn template(cpu: &Cpu, plan: &Plan, random: &mut Random) -> Vec<u8> {
    let mut template = vec![0; SCRATCH_SIZE as usize];
    random.fill(&mut template);
    let mut put = |offset: u64, bytes: &[u8]| {
        template[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes)
    };
    for slot in 0..16 {
        put(MXCSR_SLOTS + 4 * slot, &mxcsr(random, plan.exceptions).to_le_bytes());
    }
    for slot in 0..32 {
        let control = random.pick(&[0x37f_u16, 0x27f, 0x07f, 0x77f, 0xb7f, 0xf7f, 0xc7f]);
        put(CONTROL_SLOTS + 2 * slot, &control.to_le_bytes());
    }
    if plan.has_images {
        let state = image(cpu, random, Exceptions::Masked);
        put(STANDARD_IMAGE, &state);
        put(COMPACTED_IMAGE, &compacted(cpu, &image(cpu, random, Exceptions::Masked)));
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instructions::Catalogue;

    fn bytes(class: Class, placement: Placement, seed: u64) -> Vec<u8> {
        let cpu = Cpu::detect();
        let plan = Plan::new(&cpu, &Catalogue::new(&cpu), class);
        let mut guest = Guest::generate(&cpu, &plan, class, placement, seed).unwrap();
        guest.build(&cpu).unwrap()
    }

    #[test]
    fn a_seed_determines_its_guest() {
        for class in [Class::Integer, Class::ControlFlow, Class::MemoryFaults] {
            let guest = bytes(class, Placement::Low, 1);
            assert!(guest == bytes(class, Placement::Low, 1), "{class:?}");
            assert!(guest != bytes(class, Placement::Low, 2), "{class:?}");
            assert!(guest != bytes(class, Placement::High, 1), "{class:?}");
        }
    }
}
