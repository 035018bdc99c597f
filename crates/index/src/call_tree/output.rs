//! Where frames of call trees are written to.

use std::fmt;

use super::{Kind, TAG};
use retro_recording::NamedFile;

use crate::frames::packing::Packer;
use crate::frames::{FrameError, FrameWriter};

/// A file to append to, and what packs the parts of frames that are worth it.
pub(super) struct Output {
    pub(super) frames: FrameWriter,
    pub(super) packer: Packer,
}

impl Output {
    pub(super) fn create(place: &NamedFile) -> Result<Output, FrameError> {
        Ok(Output { frames: FrameWriter::create(place, TAG)?, packer: Packer::new() })
    }

    pub(super) fn reopen(place: &NamedFile, committed: u64) -> Result<Output, FrameError> {
        Ok(Output { frames: FrameWriter::reopen(place, TAG, committed)?, packer: Packer::new() })
    }

    pub(super) fn append(&mut self, kind: Kind, bytes: &[u8]) -> Result<u64, FrameError> {
        self.frames.append(kind as u8, bytes)
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.frames.fmt(formatter)
    }
}
