//! What gdb is told before its user: where files are, our commands, and whom to connect to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::sysroot::Sysroot;
use crate::arguments::GdbOptions;

/// Writes the script, and returns where it is.
pub fn write(
    options: &GdbOptions,
    sysroot: &Sysroot,
    socket: &Path,
    place: &Path,
) -> Result<PathBuf> {
    let python = place.join("retro.py");
    let script = place.join("start.gdb");
    let write = |path: &Path, text: &[u8]| {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&python, retro_gdbserver::PYTHON.as_bytes())?;
    let mut lines = vec![
        // A busy machine may take longer than the two seconds that gdb waits otherwise.
        "set remotetimeout 60".to_owned(),
        format!("set sysroot {}", plain(&sysroot.root)?),
    ];
    if let Some(debug) = &sysroot.debug {
        // Files that came with the recording may bring scripts. gdb's own default, whatever the user trusts otherwise.
        lines.push("set auto-load safe-path $debugdir:$datadir/auto-load".to_owned());
        lines.push(format!("set debug-file-directory {}:/usr/lib/debug", plain(debug)?));
    }
    for map in &options.source_map {
        let Some((old, new)) = map.split_once('=') else {
            bail!("`{map}` is not of the form OLD=NEW");
        };
        lines.push(format!("set substitute-path {} {}", quoted(old)?, quoted(new)?));
    }
    for directory in &options.source_dir {
        lines.push(format!("directory {}", plain(directory)?));
    }
    if let Some(program) = &sysroot.program {
        lines.push(format!("file {}", quoted(plain(program)?)?));
    }
    lines.push(format!("source {}", plain(&python)?));
    lines.push(format!("target remote {}", plain(socket)?));
    lines.push("python retro_begin()".to_owned());
    write(&script, (lines.join("\n") + "\n").as_bytes())?;
    Ok(script)
}

/// A path that gdb takes to the end of the line.
fn plain(path: &Path) -> Result<&str> {
    match path.to_str() {
        Some(text) if !text.contains(['\n', '\r']) => Ok(text),
        _ => bail!("gdb cannot be told of the path {path:?}"),
    }
}

/// A word for gdb.
fn quoted(word: &str) -> Result<String> {
    if word.contains(['\n', '\r']) {
        bail!("gdb cannot be told of {word:?}");
    }
    Ok(format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        assert_eq!(quoted("a b\"c").unwrap(), "\"a b\\\"c\"");
        assert!(quoted("a\nshell rm x").is_err());
        assert!(plain(Path::new("a\nb")).is_err());
    }
}
