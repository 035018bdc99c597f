//! `retro core`: a moment as a core file.

use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use retro_query::core_file::{self, CoreFileError};
use serde_json::json;
use tempfile::NamedTempFile;

use super::question::{Question, told};
use crate::Completeness;
use crate::arguments::CoreOptions;
use crate::message::notify;
use crate::quantity;
use crate::quoting::printable;

/// Writes a core file. It appears under its name when it is complete.
pub fn core_file(options: &CoreOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let target = &options.output;
    let shown = printable(target.as_os_str().as_encoded_bytes());
    let cannot_write = || format!("cannot write {shown}");
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file =
        NamedTempFile::new_in(directory.unwrap_or(Path::new("."))).with_context(cannot_write)?;
    let written = core_file::write(
        &question.run,
        question.moment,
        BufWriter::new(file.as_file()),
        &question.cancel(),
    );
    let core = match written {
        Ok(core) => core,
        Err(CoreFileError::Query(error)) => return Err(told(error)),
        Err(CoreFileError::Write(error)) => return Err(error).with_context(cannot_write),
    };
    file.persist(target).with_context(cannot_write)?;
    if question.is_json {
        let object = json!({
            "log": question.moment.log,
            "time": question.moment.time,
            "file": target.to_string_lossy(),
            "size": core.size,
            "threads": core.threads,
            "mappings": core.mappings,
        });
        question.object(&object)?;
        question.output.flush()?;
    } else {
        notify(&format!(
            "wrote {shown}: time {} with {}, {}",
            quantity::grouped(question.moment.time),
            quantity::counted(core.threads as u64, "thread", "threads"),
            quantity::bytes(core.size)
        ));
    }
    Ok(Completeness::Whole)
}
