//! Where the last command that led somewhere has led to: what `--at last` stands for.
//!
//! One line of text in the directory of the index, the log and the time. Whoever cannot write there, since the recording is
//! somebody else's, has no last result.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use retro_query::Moment;

use crate::message::notify;

fn path(recording: &Path) -> PathBuf {
    retro_index::directory(recording).join("last-result")
}

/// The last result, if there is one.
pub fn read(recording: &Path) -> Option<Moment> {
    let text = fs::read_to_string(path(recording)).ok()?;
    let (log, time) = text.trim_end().split_once(' ')?;
    Some(Moment { log: log.parse().ok()?, time: time.parse().ok()? })
}

/// Remembers a result.
pub fn write(recording: &Path, moment: Moment) {
    let path = path(recording);
    // Whoever reads at the same time finds the old one or the new one, whole.
    let written = (path.parent().ok_or(std::io::ErrorKind::NotFound.into()))
        .and_then(tempfile::NamedTempFile::new_in)
        .and_then(|mut file| {
            writeln!(file, "{} {}", moment.log, moment.time)?;
            Ok(file.persist(&path)?)
        });
    if let Err(error) = written {
        notify(&format!("`--at last` will not lead here: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_found_again_and_nonsense_is_none() {
        let recording = tempfile::tempdir().unwrap();
        assert_eq!(read(recording.path()), None);
        fs::create_dir(retro_index::directory(recording.path())).unwrap();
        let moment = Moment { log: 3, time: 12_345 };
        write(recording.path(), moment);
        assert_eq!(read(recording.path()), Some(moment));
        for nonsense in ["", "3", "3 x", "-1 5", "3 5 7"] {
            fs::write(path(recording.path()), nonsense).unwrap();
            assert_eq!(read(recording.path()), None, "{nonsense:?}");
        }
    }
}
