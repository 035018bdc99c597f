//! Where a thread's own copy of a variable is.
//!
//! glibc keeps a vector for each thread with the block of every module in it. Which entry is a module's is in the linker's
//! record of the module, at a place that differs between versions; glibc says where in variables made for debuggers.

use retro_query::{Error, Registers, State};

use crate::libraries::words;

/// The number of fs's base in the log.
const FS_BASE: usize = retro_abi::log::register::FS_BASE as usize;

/// Where glibc says what the field of the record is.
const MODULE_NUMBER: &str = "_thread_db_link_map_l_tls_modid";

/// The address of a variable at an offset of a module's block. None if the thread has no such block yet.
pub fn address(
    state: &State,
    registers: &Registers,
    offset: u64,
    link_map: u64,
) -> Result<Option<u64>, Error> {
    const UNALLOCATED: u64 = u64::MAX;
    let thread = registers.general[FS_BASE];
    let module = module_number(state, link_map)?;
    // The thread's second word is its vector; an entry is the block and what frees it.
    let Some([_, vector]) = words(state, thread)? else { return Ok(None) };
    let entry = vector.wrapping_add(module.wrapping_mul(16));
    let block = words::<1>(state, entry)?.map(|[block]| block);
    let block = block.filter(|&block| block != 0 && block != UNALLOCATED);
    Ok(block.map(|block| block.wrapping_add(offset)))
}

/// Which entry of the vectors is a module's.
fn module_number(state: &State, link_map: u64) -> Result<u64, Error> {
    let moment = state.moment();
    let named = state.run().symbols().symbol_named(moment.log, moment.time, MODULE_NUMBER);
    let described = named.iter().find(|symbol| &*symbol.name == MODULE_NUMBER);
    let Some(described) = described else {
        return Err(Error::Unknown(
            "this program's C library does not say where it keeps thread-local variables"
                .to_owned(),
        ));
    };
    // Size in bits, count, offset: four bytes each.
    let bytes = state.read(described.address, 12)?;
    let field = bytes.get(8..12).and_then(|bytes| bytes.first_chunk());
    let field = field.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let number = words::<1>(state, link_map.wrapping_add(field.into()))?;
    Ok(number.map_or(0, |[number]| number))
}
