//! Symbol tables by name, aliases included.
//!
//! The table by address has one name for each address. Here are all, from `.symtab` and `.dynsym`, read when the first
//! name is asked for.

use std::sync::Arc;

use object::LittleEndian;
use object::elf::{
    SHF_ALLOC, SHF_EXECINSTR, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC,
    STT_NOTYPE, STT_OBJECT,
};
use object::read::elf::{SectionHeader, Sym};

use super::name_pattern::NamePattern;
use crate::demangle::{demangle, demangle_with_parameters};
use crate::elf::{Elf, ElfSource, string_at, with_elf};
use crate::place::Module;
use crate::symbols::Symbols;

/// Symbols that are kept; the largest programs have a few million.
const SYMBOLS_LIMIT: usize = 1 << 24;

/// Symbols that one name leads to.
const FOUND_LIMIT: usize = 1 << 14;

/// A symbol that was found by its name.
#[derive(Clone, Debug)]
pub struct NamedSymbol {
    /// Its name, as in the source.
    pub name: Arc<str>,
    /// The file that has it.
    pub module: Arc<Module>,
    /// Where it is.
    pub address: u64,
    /// Its size; 0 if that is not known.
    pub size: u64,
    /// It is a function, not a variable.
    pub is_code: bool,
}

/// A symbol of a file.
#[derive(Clone, Debug)]
pub(crate) struct FoundSymbol {
    pub(crate) name: Arc<str>,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_code: bool,
    pub(crate) is_resolver: bool,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    address: u64,
    size: u64,
    name: (u32, u32),
    is_code: bool,
    /// Its code tells the dynamic linker which function the name stands for.
    is_resolver: bool,
}

/// The symbols of a file.
#[derive(Debug, Default)]
pub(crate) struct SymbolNames {
    rows: Vec<Row>,
    names: Vec<u8>,
}

impl SymbolNames {
    /// Reads the tables of these files.
    pub(crate) fn read<'a>(files: impl Iterator<Item = &'a ElfSource>) -> SymbolNames {
        let mut symbols = SymbolNames::default();
        for file in files {
            with_elf(file, |elf| {
                symbols.take(elf, SHT_SYMTAB);
                symbols.take(elf, SHT_DYNSYM);
            });
        }
        symbols
    }

    fn take(&mut self, elf: &Elf, table: u32) {
        let endian = LittleEndian;
        let sections = elf.elf_section_table();
        let Ok(symbols) = sections.symbols(endian, elf.data(), table) else { return };
        let names = (sections.section(symbols.string_section()).ok())
            .and_then(|section| section.data(endian, elf.data()).ok())
            .unwrap_or_default();
        for symbol in symbols.iter() {
            let (kind, section) = (symbol.st_type(), symbol.st_shndx(endian));
            if !matches!(kind, STT_FUNC | STT_GNU_IFUNC | STT_OBJECT | STT_NOTYPE)
                || section == SHN_UNDEF
                || self.rows.len() == SYMBOLS_LIMIT
            {
                continue;
            }
            let Ok(section) = sections.section(object::SectionIndex(section.into())) else {
                continue;
            };
            let flags = section.sh_flags(endian);
            let name = string_at(names, symbol.st_name(endian)).filter(|name| !name.is_empty());
            if flags & u64::from(SHF_ALLOC) == 0 {
                continue;
            }
            if let Some(name) = name.and_then(|name| self.keep(name)) {
                self.rows.push(Row {
                    address: symbol.st_value(endian),
                    size: symbol.st_size(endian),
                    name,
                    is_code: kind != STT_OBJECT && flags & u64::from(SHF_EXECINSTR) != 0,
                    is_resolver: kind == STT_GNU_IFUNC,
                });
            }
        }
    }

    fn keep(&mut self, name: &[u8]) -> Option<(u32, u32)> {
        let from = u32::try_from(self.names.len()).ok()?;
        let to = u32::try_from(self.names.len() + name.len()).ok()?;
        self.names.extend_from_slice(name);
        Some((from, to))
    }

    fn name(&self, row: &Row) -> &[u8] {
        &self.names[row.name.0 as usize..row.name.1 as usize]
    }

    /// The symbols that fit, in the order of their addresses.
    pub(crate) fn find(&self, pattern: &NamePattern) -> Vec<FoundSymbol> {
        let needle = pattern.last().as_bytes();
        let mut found = self.collect(|raw| {
            // What is mangled still has the letters of each component.
            let is_near = !needle.is_empty() && contains(raw, needle);
            let name = is_near.then(|| demangle(raw))?;
            let fits = pattern.fits(&name)
                && (!pattern.has_parameters()
                    || pattern.fits_parameters(&demangle_with_parameters(raw)));
            fits.then_some(name)
        });
        if found.is_empty() && pattern.has_star() {
            found = self
                .collect(|raw| Some(demangle(raw)).filter(|name| pattern.fits_with_stars(name)));
        }
        found
    }

    fn collect(&self, fit: impl Fn(&[u8]) -> Option<String>) -> Vec<FoundSymbol> {
        let mut found: Vec<FoundSymbol> = (self.rows.iter())
            .filter_map(|row| {
                Some(FoundSymbol {
                    name: fit(self.name(row))?.into(),
                    address: row.address,
                    size: row.size,
                    is_code: row.is_code,
                    is_resolver: row.is_resolver,
                })
            })
            .take(FOUND_LIMIT)
            .collect();
        found.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        found.dedup_by(|second, first| {
            (second.address, &second.name) == (first.address, &first.name)
        });
        found
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    let [first, ..] = part else { return true };
    let last = text.len().saturating_sub(part.len().saturating_sub(1));
    let starts = text[..last].iter().enumerate().filter(|(_, byte)| *byte == first);
    starts.into_iter().any(|(at, _)| text[at..].starts_with(part))
}

impl Symbols {
    /// The symbols of a name in all files that are mapped at a time: what the linker knows, with or without debug
    /// information.
    pub fn symbol_named(&self, log: u64, time: u64, name: &str) -> Vec<NamedSymbol> {
        let pattern = NamePattern::new(name);
        let mut found = Vec::new();
        for loaded in self.modules_at(log, time) {
            let Some(file) = &loaded.file else { continue };
            found.extend(file.symbol_names().find(&pattern).into_iter().map(|symbol| {
                NamedSymbol {
                    name: symbol.name,
                    module: Arc::clone(&loaded.module),
                    address: symbol.address.wrapping_add(loaded.bias),
                    size: symbol.size,
                    is_code: symbol.is_code,
                }
            }));
        }
        found
    }
}
