//! `retro rm`: recordings go away, and nothing else does.

use std::ffi::OsStr;

use anyhow::{Context, Result};
use retro_recording::Store;

use crate::arguments::RmOptions;
use crate::message::{complain, describe, notify};
use crate::{Completeness, quantity, quoting, selection};

/// Removes what it can, and complains of each recording that it cannot remove.
pub fn remove(options: &RmOptions) -> Result<Completeness> {
    let store = Store::from_environment()?;
    let names = if options.all {
        store.list()?.into_iter().map(|entry| entry.path.into()).collect()
    } else {
        options.recordings.clone()
    };
    let mut completeness = Completeness::Whole;
    for name in names {
        match remove_one(&store, &name) {
            Ok(text) => notify(&text),
            Err(error) => {
                complain(&describe(&error));
                completeness = Completeness::Partial;
            }
        }
    }
    Ok(completeness)
}

fn remove_one(store: &Store, name: &OsStr) -> Result<String> {
    let name = name.to_str().with_context(|| {
        format!("cannot remove {name:?}: its name is no text; remove it with `rm -r`")
    })?;
    let found = selection::find(Some(OsStr::new(name)));
    let size = found.map_or(0, |path| {
        selection::size_of(&path).saturating_add(selection::index_size_of(&path))
    });
    let path = store.remove(name)?;
    let shown = path.strip_prefix(store.root()).unwrap_or(&path);
    let shown = quoting::shell_word(shown.as_os_str().as_encoded_bytes());
    Ok(format!("removed {shown} ({})", quantity::bytes(size)))
}
