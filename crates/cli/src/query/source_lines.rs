//! Lines of source files around a place.

use std::ops::RangeInclusive;
use std::sync::Arc;

use retro_query::Run;
use retro_query::symbols::{Frame, Source, SourceError, SourceText};

use crate::quoting::printable;
use crate::style::Style;

/// The source of a frame.
pub struct Listing {
    /// The place.
    pub source: Source,
    /// The text of its file.
    pub text: Arc<SourceText>,
    /// Whether the file was changed after the program was built.
    pub is_newer: bool,
}

impl Listing {
    /// Of a frame, if it has lines and their file is found.
    pub fn of(run: &Run, frame: &Frame) -> Option<Result<Listing, SourceError>> {
        let source = frame.source.clone()?;
        let read = |text: Arc<SourceText>| {
            let built = frame.module.as_ref().map(|module| module.modified);
            let is_newer = built.is_some_and(|built| text.is_newer_than(built));
            Listing { source, text, is_newer }
        };
        Some(run.sources().read(&frame.source.as_ref()?.path).map(read))
    }

    /// So many lines with the line of the place in their middle, as far as there are any.
    pub fn range(&self, count: u32) -> RangeInclusive<u32> {
        let last = self.text.line_count();
        let first = self.source.line.saturating_sub(count / 2).max(1);
        let end = first.saturating_add(count.saturating_sub(1)).min(last);
        first.min(end.saturating_sub(count.saturating_sub(1)).max(1))..=end
    }

    /// A line, marked if it is that of the place.
    pub fn line(&self, number: u32, style: Style) -> Option<String> {
        let text = printable(self.text.line(number)?.replace('\t', "    ").as_bytes());
        let is_current = number == self.source.line;
        let shown = format!("{}{number:>6}  {text}", if is_current { '>' } else { ' ' });
        Some(if is_current { style.bold(&shown) } else { shown })
    }
}

/// The line that a frame is in, if its file is found.
pub fn current(run: &Run, frame: &Frame, style: Style) -> Option<String> {
    let listing = Listing::of(run, frame)?.ok()?;
    listing.line(listing.source.line, style)
}
