//! `retro info`: what a recording holds, in numbers.
//!
//! Strategy: [`facts`] gathers everything from the recording's head, its summaries and the first and last chunk of each
//! process; [`text`] and JSON are two ways to show it. The cost does not depend on how long the run was,
//! unless the recorder was killed before it wrote its summaries: then the log is counted.

mod facts;
mod processes;
mod text;

use std::path::PathBuf;

use anyhow::{Context, Result};
use retro_index::{Place, coverage};
use retro_replayer::Replayer;

use crate::arguments::InfoOptions;
use crate::message::complain;
use crate::output::Output;
use crate::style::Style;
use crate::{Completeness, index, selection};
use facts::Facts;
pub(crate) use processes::strings;

/// Shows a recording.
pub fn info(options: &InfoOptions) -> Result<Completeness> {
    // Nothing is replayed, so that there is no need for an engine.
    let replayer = Replayer::open(selection::open(options.recording.as_deref())?, PathBuf::new());
    let recording = replayer.recording();
    let index = Place::of(recording).map_err(index::explain)?;
    let mut facts = Facts::of(&replayer, &index).map_err(index::explain)?;
    if options.check {
        if let Err(error) = recording.verify() {
            facts.damage.get_or_insert(error.to_string());
        }
        if let Err(error) = coverage::check(&replayer, &index) {
            facts.damage.get_or_insert(index::explain(error).to_string());
        }
    }
    let mut output = Output::new();
    if options.json {
        let text = serde_json::to_string_pretty(&facts).context("cannot make JSON")?;
        output.line(&text)?;
    } else {
        output.text(&text::text(&facts, options.all, Style::stdout()))?;
    }
    output.flush()?;
    let Some(damage) = &facts.damage else {
        return Ok(Completeness::Whole);
    };
    complain(&format!("{}: {damage}", facts.name));
    Ok(Completeness::Partial)
}
