//! Names for the stubs of a procedure linkage table.
//!
//! A call into another file goes through a stub that has no symbol: `jmp *slot(%rip)`. A relocation says which
//! function the slot is for, so that the stub can be called `puts@plt`.

use std::collections::HashMap;

use gimli::Reader;
use object::elf::{R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, SHT_DYNSYM, SHT_RELA};
use object::read::elf::{Rela, SectionHeader, Sym};
use object::{LittleEndian, Object, ObjectSection};

use crate::elf::{Elf, ElfSource, section, string_at};
use crate::functions::{Functions, RawSymbol};

/// Where linkers put stubs, and at multiples of what they begin there: behind its jump a stub may have what binds its
/// function at the first call.
const SECTIONS: [(&str, usize); 3] = [(".plt", 16), (".plt.sec", 16), (".plt.got", 8)];

/// `jmp *displacement(%rip)`
const JUMP: [u8; 2] = [0xff, 0x25];
const JUMP_LENGTH: usize = 6;

/// The stubs of a file.
pub(crate) fn stubs(file: &ElfSource, elf: &Elf) -> Functions {
    let slots = slots(elf);
    if slots.is_empty() {
        return Functions::default();
    }
    let mut found = Vec::new();
    for (name, alignment) in SECTIONS {
        let (Some(header), Some(code)) = (elf.section_by_name(name), section(file, elf, name))
        else {
            continue;
        };
        let Ok(code) = code.to_slice() else { continue };
        find_stubs(&code, header.address(), alignment, &slots, &mut found);
    }
    Functions::new(found.iter().map(|(address, size, name): &(u64, u64, Vec<u8>)| RawSymbol {
        address: *address,
        size: *size,
        limit: u64::MAX,
        name,
        is_global: true,
        is_typed: true,
    }))
}

fn find_stubs(
    code: &[u8],
    start: u64,
    alignment: usize,
    slots: &HashMap<u64, Vec<u8>>,
    found: &mut Vec<(u64, u64, Vec<u8>)>,
) {
    let mut stub = 0;
    for at in 0..code.len().saturating_sub(JUMP_LENGTH - 1) {
        if code[at..at + 2] != JUMP {
            continue;
        }
        let displacement =
            i32::from_le_bytes([code[at + 2], code[at + 3], code[at + 4], code[at + 5]]);
        let behind = start.wrapping_add((at + JUMP_LENGTH) as u64);
        let Some(name) = slots.get(&behind.wrapping_add_signed(displacement.into())) else {
            continue;
        };
        // In front of the jump there may be `endbr64`, behind it what fills the stub.
        let first = (at - at % alignment).max(stub);
        stub = (at + JUMP_LENGTH).next_multiple_of(alignment);
        found.push((start.wrapping_add(first as u64), (stub - first) as u64, name.clone()));
    }
}

/// The names of functions of other files, with `@plt`, by the address of their slots.
fn slots(elf: &Elf) -> HashMap<u64, Vec<u8>> {
    let endian = LittleEndian;
    let sections = elf.elf_section_table();
    let mut slots = HashMap::new();
    let Ok(symbols) = sections.symbols(endian, elf.data(), SHT_DYNSYM) else { return slots };
    let names = (sections.section(symbols.string_section()).ok())
        .and_then(|section| section.data(endian, elf.data()).ok())
        .unwrap_or_default();
    for section in sections.iter().filter(|section| section.sh_type(endian) == SHT_RELA) {
        let Ok(Some((relocations, _))) = section.rela(endian, elf.data()) else { continue };
        for relocation in relocations {
            let kind = relocation.r_type(endian, false);
            let index = object::SymbolIndex(relocation.r_sym(endian, false) as usize);
            if kind != R_X86_64_JUMP_SLOT && kind != R_X86_64_GLOB_DAT {
                continue;
            }
            let name = symbols.symbol(index).ok().and_then(|s| string_at(names, s.st_name(endian)));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                slots.insert(relocation.r_offset(endian), [name, b"@plt"].concat());
            }
        }
    }
    slots
}
