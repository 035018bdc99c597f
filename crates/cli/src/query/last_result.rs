//! Where the last command that led somewhere has led to: what `--at last` stands for.
//!
//! One line of text in the directory of the index, the log and the time.

use retro_index::Place;
use retro_query::Moment;
use retro_recording::Recording;

use crate::message::notify;

const NAME: &str = "last-result";

/// More than two numbers take.
const LENGTH_LIMIT: u64 = 100;

/// The last result, if there is one.
pub fn read(recording: &Recording) -> Option<Moment> {
    read_at(&Place::of(recording).ok()?)
}

/// Remembers a result.
pub fn write(recording: &Recording, moment: Moment) {
    let written = Place::of(recording).and_then(|place| write_at(&place, moment));
    if let Err(error) = written {
        notify(&format!("`--at last` will not lead here: {error}"));
    }
}

fn read_at(place: &Place) -> Option<Moment> {
    let text = place.existing().ok()??.read(NAME, LENGTH_LIMIT).ok()?;
    let (log, time) = std::str::from_utf8(&text).ok()?.trim_end().split_once(' ')?;
    Some(Moment { log: log.parse().ok()?, time: time.parse().ok()? })
}

fn write_at(place: &Place, moment: Moment) -> Result<(), retro_index::Error> {
    let index = place.made()?;
    let text = format!("{} {}\n", moment.log, moment.time);
    index.replace(NAME, text.as_bytes(), false).map_err(|source| retro_index::Error::Io {
        action: "write",
        path: index.path_of(NAME),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use retro_recording::Directory;

    use super::*;

    #[test]
    fn a_result_is_found_again_and_nonsense_is_none() {
        let recording = tempfile::tempdir().unwrap();
        let place = Place::beside(&Directory::open(recording.path()).unwrap()).unwrap();
        assert_eq!(read_at(&place), None);
        let moment = Moment { log: 3, time: 12_345 };
        write_at(&place, moment).unwrap();
        assert_eq!(read_at(&place), Some(moment));
        for nonsense in ["", "3", "3 x", "-1 5", "3 5 7"] {
            fs::write(place.path().join(NAME), nonsense).unwrap();
            assert_eq!(read_at(&place), None, "{nonsense:?}");
        }
    }
}
