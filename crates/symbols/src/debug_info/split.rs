//! Units whose contents lie in a file of their own.
//!
//! With `-gsplit-dwarf` a program has skeletons only: addresses, line tables, and the name and number of a `.dwo`
//! file with the rest. Those files lie where they were compiled, or beside the program, or packed together in a
//! `.dwp` beside it. DWARF 5 and the extension to DWARF 4 that came before it differ in names of attributes alone.
//!
//! Invariant: contents are taken only if they have the number that the skeleton asks for.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use gimli::{
    DebugTypeSignature, Dwarf, DwarfPackage, DwoId, Reader as _, SectionId, Unit, UnitHeader,
};

use super::units::{DebugUnit, Home, UnitTable, signature_of};
use super::{Bytes, read_sections};
use retro_recording::Budget;

use crate::elf::{ElfSource, joined_sections, large_section, with_elf};
use crate::files::open_regular;
use crate::lock;

/// Bytes of a path in a skeleton.
const PATH_LIMIT: usize = 4096;

/// Units of one file that are looked through for a type.
const UNITS_LIMIT: usize = 1 << 16;

/// Numbers of units with types: those of the program come before.
const FIRST_TYPE: u32 = 1 << 31;
const TYPES_LIMIT: u32 = 1 << 20;

/// The contents of a unit, and the sections that they refer to.
#[derive(Debug)]
pub(super) struct SplitUnit {
    pub(super) dwarf: Arc<Dwarf<Bytes>>,
    pub(super) unit: Unit<Bytes>,
}

/// Where the contents of split units are.
#[derive(Debug)]
pub(super) struct SplitFiles {
    /// The program, and the file with its debug information.
    beside: Vec<PathBuf>,
    budget: Budget,
    package: OnceLock<Option<DwarfPackage<Bytes>>>,
    /// Units with types that others refer to, by signature.
    types: Mutex<HashMap<u64, Arc<DebugUnit>>>,
}

impl SplitFiles {
    /// For a program that lies in one of these places.
    pub(super) fn new(beside: &[&Path], budget: &Budget) -> SplitFiles {
        let mut beside: Vec<PathBuf> = beside.iter().map(|path| path.to_path_buf()).collect();
        beside.dedup();
        let (package, types) = (OnceLock::new(), Mutex::default());
        SplitFiles { beside, budget: budget.clone(), package, types }
    }

    /// The contents of a unit, if it is a skeleton.
    pub(super) fn unit_of(
        &self,
        skeleton: &Unit<Bytes>,
        parent: &Dwarf<Bytes>,
    ) -> Option<SplitUnit> {
        let id = skeleton.dwo_id?;
        let name = path_in(parent, skeleton, skeleton.dwo_name().ok()??)?;
        let packed = self.package().and_then(|package| package.find_cu(id, parent).ok().flatten());
        let found = packed.map(Arc::new).and_then(|dwarf| contents(dwarf, skeleton, id));
        found.or_else(|| self.find_file(&name, skeleton, parent, id))
    }

    /// The unit with a type that a split unit refers to.
    pub(super) fn type_unit(
        &self,
        from: &DebugUnit,
        signature: DebugTypeSignature,
        main: &UnitTable,
    ) -> Option<Arc<DebugUnit>> {
        if let Some(known) = lock(&self.types).get(&signature.0) {
            return Some(Arc::clone(known));
        }
        let within = |dwarf: &Arc<Dwarf<Bytes>>| {
            let header = headers(dwarf).find(|header| signature_of(header) == Some(signature))?;
            let mut unit = dwarf.unit(header).ok()?;
            unit.copy_relocated_attributes(from.skeleton_or_unit());
            Some((Arc::clone(dwarf), unit))
        };
        let packed = (self.package())
            .and_then(|package| package.find_tu(signature, main.dwarf()).ok().flatten());
        let packed = packed.map(Arc::new).and_then(|dwarf| within(&dwarf));
        let (dwarf, unit) = packed.or_else(|| within(from.shared_dwarf()))?;
        self.keep_type(signature, dwarf, unit)
    }

    /// All units with types that lie in the same file as a split unit.
    pub(super) fn type_units_beside(&self, unit: &DebugUnit) -> Vec<Arc<DebugUnit>> {
        let dwarf = unit.shared_dwarf();
        let read = |header: UnitHeader<Bytes>| {
            let signature = signature_of(&header)?;
            if let Some(known) = lock(&self.types).get(&signature.0) {
                return Some(Arc::clone(known));
            }
            let mut types = dwarf.unit(header).ok()?;
            types.copy_relocated_attributes(unit.skeleton_or_unit());
            self.keep_type(signature, Arc::clone(dwarf), types)
        };
        headers(dwarf).filter_map(read).collect()
    }

    fn keep_type(
        &self,
        signature: DebugTypeSignature,
        dwarf: Arc<Dwarf<Bytes>>,
        unit: Unit<Bytes>,
    ) -> Option<Arc<DebugUnit>> {
        let mut types = lock(&self.types);
        let number = u32::try_from(types.len()).ok().filter(|&number| number < TYPES_LIMIT)?;
        let unit = Arc::new(DebugUnit::new(FIRST_TYPE + number, Home::Split, dwarf, unit));
        Some(Arc::clone(types.entry(signature.0).or_insert(unit)))
    }

    fn package(&self) -> Option<&DwarfPackage<Bytes>> {
        let read = |path: &PathBuf| {
            let mut name = path.as_os_str().to_owned();
            name.push(".dwp");
            let file = ElfSource::new(open_regular(Path::new(&name)).ok()?, &self.budget);
            let load = |id: SectionId| -> gimli::Result<Bytes> {
                let section = with_elf(&file, |elf| large_section(&file, elf, id.dwo_name()?));
                Ok(section.flatten().unwrap_or_default())
            };
            DwarfPackage::load(load, Bytes::default()).ok()
        };
        self.package.get_or_init(|| self.beside.iter().find_map(read)).as_ref()
    }

    fn find_file(
        &self,
        name: &Path,
        skeleton: &Unit<Bytes>,
        parent: &Dwarf<Bytes>,
        id: DwoId,
    ) -> Option<SplitUnit> {
        let compiled_in = skeleton.comp_dir.as_ref().and_then(|directory| {
            let bytes = directory.to_slice().ok()?;
            Some(PathBuf::from(OsStr::from_bytes(&bytes[..bytes.len().min(PATH_LIMIT)])))
        });
        let directories = self.beside.iter().filter_map(|path| path.parent());
        let beside = directories.flat_map(|directory| {
            [Some(directory.join(name)), name.file_name().map(|name| directory.join(name))]
        });
        let compiled_in = compiled_in.map(|directory| directory.join(name));
        // A relative place would be looked up from here instead of from where the compiler was.
        let mut places =
            iter::once(compiled_in).chain(beside).flatten().filter(|place| place.is_absolute());
        places.find_map(|place| {
            let file = ElfSource::new(open_regular(&place).ok()?, &self.budget);
            let dwarf = read_file(&file, parent)?;
            contents(Arc::new(dwarf), skeleton, id)
        })
    }
}

fn read_file(file: &ElfSource, parent: &Dwarf<Bytes>) -> Option<Dwarf<Bytes>> {
    let mut dwarf =
        with_elf(file, |elf| read_sections(|id| joined_sections(file, elf, id.dwo_name()?)))?;
    dwarf.make_dwo(parent);
    Some(dwarf)
}

/// The unit with a number of a split file.
fn contents(dwarf: Arc<Dwarf<Bytes>>, skeleton: &Unit<Bytes>, id: DwoId) -> Option<SplitUnit> {
    let unit = headers(&dwarf).find_map(|header| {
        signature_of(&header)
            .is_none()
            .then(|| dwarf.unit(header).ok())?
            .filter(|unit| unit.dwo_id == Some(id))
    });
    let mut unit = unit?;
    unit.copy_relocated_attributes(skeleton);
    Some(SplitUnit { dwarf, unit })
}

fn headers(dwarf: &Dwarf<Bytes>) -> impl Iterator<Item = UnitHeader<Bytes>> {
    let mut units = dwarf.units();
    let mut type_units = dwarf.type_units();
    iter::from_fn(move || match units.next() {
        Ok(Some(header)) => Some(header),
        _ => type_units.next().ok().flatten(),
    })
    .take(UNITS_LIMIT)
}

fn path_in(
    dwarf: &Dwarf<Bytes>,
    unit: &Unit<Bytes>,
    value: gimli::AttributeValue<Bytes>,
) -> Option<PathBuf> {
    let name = dwarf.attr_string(unit, value).ok()?;
    let bytes = name.to_slice().ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&bytes[..bytes.len().min(PATH_LIMIT)])))
}
