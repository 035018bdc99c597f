//! Opening the page in the user's browser.
//!
//! The address of the page has the token in it, and every user of a machine can see the arguments of all programs. So the browser is
//! given a file that only this user can read, and which leads on to the page.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use crate::message::complain;

/// Starts whatever the user has chosen as a browser.
const OPENER: &str = "xdg-open";

/// How long a browser may take to read the file.
const TIME_TO_READ: Duration = Duration::from_secs(60);

/// Whether there is a display that a browser could show something on.
pub fn is_there() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| env::var_os(name).is_some_and(|it| !it.is_empty()))
}

/// Opens a page. If that fails the user is told, and has the address.
pub fn open(page: &str) {
    if let Err(error) = try_open(page) {
        complain(&format!(
            "cannot open a browser ({OPENER}: {error}): open the page above by hand"
        ));
    }
}

fn try_open(page: &str) -> io::Result<()> {
    let directory = make_directory()?;
    let file = directory.join("open.html");
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?;
    // The address is made of an IP address, a port and hexadecimal digits: nothing to escape.
    writeln!(
        written,
        "<!doctype html><meta charset=\"utf-8\"><title>Retrospect</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={page}\"><a href=\"{page}\">Retrospect</a>"
    )?;
    let mut opener = Command::new(OPENER);
    opener.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = match opener.spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = fs::remove_dir_all(directory);
            return Err(error);
        }
    };
    thread::spawn(move || {
        let _ = child.wait();
        thread::sleep(TIME_TO_READ);
        let _ = fs::remove_dir_all(directory);
    });
    Ok(())
}

/// A directory of this user, preferably where browsers in a sandbox can read.
fn make_directory() -> io::Result<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let parent = runtime.unwrap_or_else(env::temp_dir);
    let directory = tempfile::Builder::new().prefix("retro-ui-").tempdir_in(parent)?.keep();
    fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
    Ok(directory)
}
