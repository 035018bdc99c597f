//! What memory held at the end of each window: versions of pages.
//!
//! The problem: memory at a window's start is what all windows before it left, and there may be a hundred thousand
//! of them, which changed ten million pages, mostly a few words of each. The strategy: a page that changed in a
//! window gets a *version*; the page as of a window is its newest version up to then. A version is stored as the
//! words that differ from the version before. So that reading one takes a bounded number of steps, every eighth is
//! told from the eighth before it (a *checkpoint*: a hot page changes the same words again and again, so that this
//! is little more), and every sixty-fourth is a whole page.
//!
//! Versions are gathered into *batches* of some 16 KiB, over as many windows as that takes, and compressed together: a
//! hot page is in every window, so its versions are often in the same batch and look alike (`batch`). Larger batches
//! and longer rows of changes would save a quarter of the space and take twice the time to read: most of the time of a
//! question about a random moment goes into this.
//! Which window has a page's newest version is what a [`SetTree`](crate::set_tree::SetTree) of page numbers answers;
//! which batch has the version of that window follows from the list of batches, in memory, an entry for each.
//! So opening costs little, whatever the number of versions.
//!
//! Bytes of a page may be unknown, as long as the program has neither written nor read them: each version has a bit
//! for each byte that says whether its contents are known.
//!
//! Invariants:
//! 1. A version that is stored as changes has its predecessor in an earlier window, and a row of them ends after at
//!    most `STEPS`.
//! 2. Batches are in the order of windows; within a batch, versions are in the order of windows, then pages, each once.
//! 3. If a page was added twice in a window, the later one counts.
//!
//! Traps: the writer keeps the contents of recently changed pages, within a limit, to compare with. A page that is not
//! among them any more, as all after resuming, is stored whole.

mod batch;
mod store;
mod words;
mod writer;

pub use store::{PageVersion, PageVersions};
pub use writer::PageVersionsWriter;

use retro_recording::{Directory, NamedFile};

use crate::frames::{FrameError, Tag};
use crate::set_tree::SetTreeError;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;

/// Bytes that have a bit for each byte of a page.
pub const KNOWN_SIZE: usize = PAGE_SIZE / 8;

/// Of the versions of a page since one that is whole, each whose number is a multiple of this is told from the one
/// that many before.
const CHECKPOINT: u8 = 4;

/// The version of a page with this number is whole again.
const WHOLE: u8 = 8;

/// The most versions that have to be read to know one: a whole one, checkpoints, and those since the last checkpoint.
const STEPS: u8 = 1 + (WHOLE / CHECKPOINT - 1) + (CHECKPOINT - 1);

const TAG: Tag = *b"page";

/// How much of each file is complete, for a manifest to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Length of the file of contents.
    pub contents: u64,
    /// Length of the file of the sets of changed pages.
    pub changed: u64,
}

/// Why page versions could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PageVersionsError {
    /// The file of contents failed.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// The sets of changed pages failed.
    #[error(transparent)]
    Changed(#[from] SetTreeError),
    /// Windows must come in order.
    #[error("a page of window {window} was added after window {next} had begun")]
    WindowOutOfOrder {
        /// The window.
        window: u32,
        /// The window that was being written.
        next: u32,
    },
    /// Pages begin at multiples of their size.
    #[error("{0:#x} is not the address of a page")]
    NotAPage(u64),
    /// The two files belong to different commits.
    #[error("the files of page versions do not belong together: build the index again")]
    Inconsistent,
}

fn contents_file(directory: &Directory) -> NamedFile {
    directory.named("pages")
}

fn changed_file(directory: &Directory) -> NamedFile {
    directory.named("changed-pages")
}

/// The number of a page, which is what it is called everywhere inside.
fn page_number(address: u64) -> Result<u64, PageVersionsError> {
    let size = PAGE_SIZE as u64;
    if address.is_multiple_of(size) {
        Ok(address / size)
    } else {
        Err(PageVersionsError::NotAPage(address))
    }
}
