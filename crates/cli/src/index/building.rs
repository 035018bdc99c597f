//! A build that somebody watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use retro_index::build::Watch;
use retro_index::claim::Claim;

use super::interrupt;
use crate::quantity;

/// A progress bar on a terminal, and nothing elsewhere. It is gone when this is dropped.
pub struct Building {
    bar: ProgressBar,
}

impl Building {
    /// Begins with nothing done.
    pub fn start(message: &'static str, instructions: u64) -> Building {
        let bar = ProgressBar::new(instructions).with_message(message);
        let speed = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let _ = write!(text, "{}", quantity::scaled(state.per_sec() as u64));
        };
        let template =
            "{msg} {wide_bar} {human_pos}/{human_len} instructions, {speed}/s, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("speed", speed));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Building { bar }
    }

    /// So many instructions are done.
    pub fn is_at(&self, instructions: u64) {
        self.bar.set_position(instructions);
    }

    /// For a builder with a claim.
    pub fn watch<'a>(&'a self, claim: &'a Claim) -> impl Watch + 'a {
        Watcher { bar: &self.bar, claim }
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

struct Watcher<'a> {
    bar: &'a ProgressBar,
    claim: &'a Claim,
}

impl Watch for Watcher<'_> {
    fn advanced(&self, instructions: u64) {
        self.bar.inc(instructions);
    }

    fn is_cancelled(&self) -> bool {
        interrupt::is_asked() || !self.claim.is_valid()
    }
}
