//! What a process has said about its blocks before it executes them.

use retro_abi::replay::{self, Header, MOST_BLOCKS, NUMBER_BITS, RECORD_GRAIN};
use retro_recording::{Budget, Share};

use super::Ending;
use super::access::KnownAccess;

/// What is known of a block before it is executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Description {
    pub(super) pc: u64,
    pub(super) first_access: u32,
    pub(super) first_length: u32,
    /// Bytes of its record.
    pub(super) bytes: u16,
    pub(super) accesses: u16,
    pub(super) instructions: u8,
    pub(super) ending: Ending,
    /// Whether it is the part of a block in front of one of its side exits.
    pub(super) is_partial: bool,
}

/// The length that a record's first word says when it cannot say it.
const LONGEST_TOLD: usize = (u32::MAX >> NUMBER_BITS) as usize * RECORD_GRAIN;

/// All blocks that a process has described.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptions {
    /// By number.
    pub(super) known: Vec<Description>,
    accesses: Vec<KnownAccess>,
    /// Lengths of instructions.
    lengths: Vec<u8>,
    /// How often numbers have begun anew.
    pub(super) generation: u64,
    /// The memory that they take, if there is a limit.
    share: Option<Share>,
}

impl Descriptions {
    /// None, and so much memory for some.
    pub(crate) fn within(budget: &Budget) -> Descriptions {
        Descriptions { share: Some(budget.share()), ..Descriptions::default() }
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.accesses.clear();
        self.lengths.clear();
        // What was allocated once stays; it counts again when it is used again.
        if let Some(share) = &mut self.share {
            share.clear();
        }
    }

    /// Takes in one of the descriptions of others, and gives it the next number.
    pub(super) fn take_in(&mut self, others: &Descriptions, description: &Description) -> u32 {
        let number = self.known.len() as u32;
        let first_access = self.accesses.len() as u32;
        let first_length = self.lengths.len() as u32;
        self.accesses.extend_from_slice(others.accesses(description));
        self.lengths.extend_from_slice(others.lengths(description));
        self.known.push(Description { first_access, first_length, ..*description });
        number
    }

    pub(super) fn memory_size(&self) -> usize {
        self.known.capacity() * size_of::<Description>()
            + self.accesses.capacity() * size_of::<KnownAccess>()
            + self.lengths.capacity()
    }

    /// Takes in a description; an error says what is wrong with it.
    pub(crate) fn define(&mut self, header: &Header, payload: &[u8]) -> Result<(), &'static str> {
        let [_, number, pc, instructions, ending, bytes, _, exit] = header.0;
        let split = payload.len().checked_sub(instructions as usize);
        let (accesses, lengths) = payload.split_at(split.ok_or("a block lacks its instructions")?);
        let (chunks, rest) = accesses.as_chunks::<{ replay::Access::SIZE }>();
        let code_len: u64 = lengths.iter().map(|&len| u64::from(len)).sum();
        let next = pc.checked_add(code_len).ok_or("a block lies beyond all memory")?;
        let ending = Ending::from_number(ending).ok_or("a block ends in an unknown way")?;
        if number == 0 {
            self.clear();
            self.generation += 1;
        }
        if number != self.known.len() as u64 || number >= MOST_BLOCKS.into() || !rest.is_empty() {
            return Err("a block's description makes no sense");
        }
        let size_fits = (4..=u64::from(u16::MAX)).contains(&bytes)
            && bytes.is_multiple_of(RECORD_GRAIN as u64)
            && (1..=u64::from(u8::MAX)).contains(&instructions);
        if !size_fits {
            return Err("a block has a wrong size");
        }
        // Vectors grow by doubling.
        let size =
            size_of::<Description>() + chunks.len() * size_of::<KnownAccess>() + lengths.len();
        if let Some(share) = &mut self.share {
            share.grow(2 * size as u64).map_err(|_| "its blocks take too much memory")?;
        }
        let known = self.accesses.len();
        for chunk in chunks {
            let access = replay::Access::from_bytes(chunk);
            match KnownAccess::check(&access, instructions, bytes, next) {
                Some(access) => self.accesses.push(access),
                None => {
                    self.accesses.truncate(known);
                    return Err("an access of a block makes no sense");
                }
            }
        }
        let description = Description {
            pc,
            instructions: instructions as u8,
            bytes: bytes as u16,
            first_access: u32::try_from(known).map_err(|_| "there are too many blocks")?,
            accesses: chunks.len() as u16,
            first_length: self.lengths.len() as u32,
            ending,
            is_partial: exit != 0,
        };
        self.lengths.extend_from_slice(lengths);
        self.known.push(description);
        Ok(())
    }

    /// Whether a block is known, and the part in front of a side exit of the one before.
    pub(crate) fn is_partial(&self, number: usize) -> bool {
        self.known.get(number).is_some_and(|description| description.is_partial)
    }

    /// Address and lengths of the instructions of a block.
    pub(crate) fn code(&self, number: usize) -> Option<(u64, &[u8])> {
        let description = self.known.get(number)?;
        Some((description.pc, self.lengths(description)))
    }

    /// The block whose record begins with `word`, and the length of the record.
    #[inline]
    pub(super) fn of_record(&self, word: u32) -> Option<(&Description, usize)> {
        let description = self.known.get((word & MOST_BLOCKS) as usize)?;
        let told = (word >> NUMBER_BITS) as usize * RECORD_GRAIN;
        let len = if told == LONGEST_TOLD { usize::from(description.bytes) } else { told };
        (len == usize::from(description.bytes)).then_some((description, len))
    }

    #[inline]
    pub(super) fn lengths(&self, description: &Description) -> &[u8] {
        let first = description.first_length as usize;
        self.lengths.get(first..first + usize::from(description.instructions)).unwrap_or_default()
    }

    #[inline]
    pub(super) fn accesses(&self, description: &Description) -> &[KnownAccess] {
        let first = description.first_access as usize;
        self.accesses.get(first..first + usize::from(description.accesses)).unwrap_or_default()
    }
}
