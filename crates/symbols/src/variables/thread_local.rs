//! Where the variables of a thread are.
//!
//! The debug information has their offset in the block that the thread has for their module. The block of the main
//! program ends at the thread pointer. Those of libraries are found in what the dynamic linker wrote into the library's
//! own relocations: the number of the module, which leads to its block by the thread's table of blocks (DTV), or the
//! distance of one variable from the thread pointer. Everything is read from the memory of the process.

use gimli::{AttributeValue, Operation};

use super::FrameScope;
use crate::machine::Machine;
use crate::symbols::LoadedModule;
use crate::types::{Die, Spot};

const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_TLS: u32 = 7;
const ET_EXEC: u16 = 2;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_SONAME: u64 = 14;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;
const R_X86_64_DTPMOD64: u32 = 16;
const R_X86_64_TPOFF64: u32 = 18;

const HEADERS_LIMIT: u64 = 64;
const DYNAMIC_LIMIT: u64 = 128;
const RELOCATIONS_LIMIT: u64 = 1 << 16;
/// Modules with blocks of their own.
const MODULES_LIMIT: u64 = 1 << 12;

impl FrameScope<'_> {
    /// The address of a thread's variable.
    pub(super) fn thread_local_address(&self, spot: &Spot, offset: u64) -> Option<u64> {
        self.thread_local(spot, offset).ok()
    }

    fn thread_local(&self, spot: &Spot, offset: u64) -> Result<u64, &'static str> {
        let machine = self.frame.machine;
        let thread = machine.fs_base().ok_or("the thread pointer is not known")?;
        let module = self.module_of(spot).ok_or("its file is not mapped")?;
        let image = Image::read(machine, &module)
            .ok_or("the headers of its file cannot be read from memory")?;
        let block = image.block(machine, thread)?;
        Ok(block.wrapping_add(image.block_offset(offset)))
    }

    /// Why a variable that has no value has none, if it is one of the thread's.
    pub(super) fn why_not_thread_local(&self, die: &Die) -> Option<&'static str> {
        let located = die.origins().find(|die| die.has(gimli::DW_AT_location))?;
        let Some(AttributeValue::Exprloc(expression)) = located.value(gimli::DW_AT_location) else {
            return None;
        };
        let mut operations = expression.operations(located.unit.unit().encoding());
        while let Ok(Some(operation)) = operations.next() {
            if matches!(operation, Operation::TLS) {
                return self.thread_local(&located.spot(), 0).err();
            }
        }
        None
    }
}

/// What a module in memory says of itself.
#[derive(Default)]
struct Image {
    bias: u64,
    is_program: bool,
    /// Size and alignment of its block.
    block: Option<(u64, u64)>,
    /// Where the file has what the block begins with.
    block_image: u64,
    symbols: u64,
    relocations: (u64, u64),
}

impl Image {
    fn read(machine: &dyn Machine, module: &LoadedModule) -> Option<Image> {
        let mut header = [0; 64];
        let is_elf = machine.read(module.start, &mut header) && header.starts_with(b"\x7fELF");
        is_elf.then_some(())?;
        let mut image = Image { bias: module.bias, ..Image::default() };
        let is_fixed = u16::from_le_bytes([header[16], header[17]]) == ET_EXEC;
        let count = u64::from(u16::from_le_bytes([header[56], header[57]])).min(HEADERS_LIMIT);
        let table = module.start.wrapping_add(number(&header, 32));
        let (mut has_interpreter, mut dynamic) = (false, None);
        for index in 0..count {
            let mut entry = [0; 56];
            if !machine.read(table.wrapping_add(index * 56), &mut entry) {
                break;
            }
            match u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) {
                PT_TLS => {
                    image.block = Some((number(&entry, 40), number(&entry, 48)));
                    image.block_image = number(&entry, 16);
                }
                PT_INTERP => has_interpreter = true,
                PT_DYNAMIC => dynamic = Some(number(&entry, 16).wrapping_add(module.bias)),
                _ => {}
            }
        }
        let (mut is_named, mut is_pie) = (false, false);
        for index in 0..dynamic.map_or(0, |_| DYNAMIC_LIMIT) {
            let mut entry = [0; 16];
            if !machine.read(dynamic?.wrapping_add(index * 16), &mut entry) {
                break;
            }
            let value = number(&entry, 8);
            match number(&entry, 0) {
                0 => break,
                DT_SYMTAB => image.symbols = image.relocated(value),
                DT_RELA => image.relocations.0 = image.relocated(value),
                DT_RELASZ => image.relocations.1 = value / 24,
                DT_SONAME => is_named = true,
                DT_FLAGS_1 => is_pie = value & DF_1_PIE != 0,
                _ => {}
            }
        }
        image.is_program = is_fixed || is_pie || has_interpreter && !is_named;
        Some(image)
    }

    /// Split debug information of gcc has the address in the file instead of the offset in the block.
    fn block_offset(&self, offset: u64) -> u64 {
        let size = self.block.map_or(0, |(size, _)| size);
        match offset.checked_sub(self.block_image) {
            Some(within) if offset >= size && within < size => within,
            _ => offset,
        }
    }

    /// The dynamic linker writes some addresses back as those in memory.
    fn relocated(&self, address: u64) -> u64 {
        if address < self.bias { address.wrapping_add(self.bias) } else { address }
    }

    /// Where the block of a thread is.
    fn block(&self, machine: &dyn Machine, thread: u64) -> Result<u64, &'static str> {
        let (size, alignment) = self.block.ok_or("its file has no block for threads")?;
        if self.is_program {
            let size = size
                .checked_next_multiple_of(alignment.max(1))
                .ok_or("its file's block cannot be")?;
            return Ok(thread.wrapping_sub(size));
        }
        for index in 0..self.relocations.1.min(RELOCATIONS_LIMIT) {
            let mut entry = [0; 24];
            if !machine.read(self.relocations.0.wrapping_add(index * 24), &mut entry) {
                break;
            }
            let place = number(&entry, 0).wrapping_add(self.bias);
            let (kind, symbol) = (number(&entry, 8) as u32, number(&entry, 8) >> 32);
            if !matches!(kind, R_X86_64_DTPMOD64 | R_X86_64_TPOFF64) {
                continue;
            }
            // A symbol may be that of another module: only those that are defined here count.
            let Some(value) = self.own_symbol(machine, symbol) else { continue };
            let Some(written) = read_number(machine, place) else { continue };
            if kind == R_X86_64_TPOFF64 {
                let offset = value.wrapping_add(number(&entry, 16));
                return Ok(thread.wrapping_add(written).wrapping_sub(offset));
            }
            return block_of_module(machine, thread, written);
        }
        Err("it is in a library that does not say which of the thread's blocks is its own")
    }

    /// The value of a symbol that is defined in the module.
    fn own_symbol(&self, machine: &dyn Machine, index: u64) -> Option<u64> {
        if index == 0 {
            return Some(0);
        }
        let mut symbol = [0; 24];
        machine
            .read(self.symbols.wrapping_add(index.wrapping_mul(24)), &mut symbol)
            .then_some(())?;
        let is_defined = symbol[6] != 0 || symbol[7] != 0;
        is_defined.then(|| number(&symbol, 8))
    }
}

fn block_of_module(machine: &dyn Machine, thread: u64, module: u64) -> Result<u64, &'static str> {
    let lost = "the thread's table of blocks cannot be read";
    if module == 0 || module > MODULES_LIMIT {
        return Err("its library's number is not known");
    }
    let table = read_number(machine, thread.wrapping_add(8)).ok_or(lost)?;
    let block = read_number(machine, table.wrapping_add(module * 16)).ok_or(lost)?;
    match block {
        0 | u64::MAX => Err("this thread has not used it yet, so that it is nowhere"),
        block => Ok(block),
    }
}

fn read_number(machine: &dyn Machine, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    machine.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    if let Some(found) = bytes.get(at..at + 8) {
        number.copy_from_slice(found);
    }
    u64::from_le_bytes(number)
}
