//! What clients read piece by piece: the description of registers, threads, libraries, the auxiliary vector.

use std::fmt::Write;

use retro_query::{Cancel, Direction, Error, Row, RowClass, RowFilter};

use crate::libraries;
use crate::moment_view::layout;
use crate::session::Session;
use crate::stop::Reason;

/// Clients read it once and access nothing that is not in it, but mappings come and go: all addresses may be memory. What is
/// mapped at the moment is in `/proc/PID/maps`.
const MEMORY_MAP: &str = r#"<?xml version="1.0"?>
<memory-map>
<memory type="ram" start="0x0" length="0xffffffffffffffff"/>
</memory-map>
"#;

/// The document with a name, or None if there is none of that name.
pub fn make(session: &mut Session, object: &str, annex: &str) -> Result<Option<Vec<u8>>, Error> {
    Ok(Some(match (object, annex) {
        ("features", "target.xml") => layout().description().into_bytes(),
        ("threads", "") => threads(session)?.into_bytes(),
        ("libraries-svr4", _) => libraries::document(session)?.into_bytes(),
        ("auxv", "") => {
            let log = session.debuggee.process.log;
            session.debuggee.run.auxiliary_vector(log)?.unwrap_or_default()
        }
        // Of which process is said in the annex; there is only one.
        ("exec-file", _) => session.debuggee.program.path.clone(),
        ("memory-map", "") => MEMORY_MAP.as_bytes().to_vec(),
        ("siginfo", "") => signal_information(session)?,
        _ => return Ok(None),
    }))
}

fn threads(session: &mut Session) -> Result<String, Error> {
    let names = session.thread_names()?;
    let mut text = String::from("<?xml version=\"1.0\"?>\n<threads>\n");
    for thread in session.threads()? {
        let _ = write!(text, "<thread id=\"{}\"", session.name(thread));
        if let Some(name) = names.get(&thread) {
            let _ = write!(text, " name=\"{}\"", escaped(name));
        }
        text.push_str("/>\n");
    }
    text.push_str("</threads>\n");
    Ok(text)
}

/// What the kernel says of the signal that the view stands at.
fn signal_information(session: &mut Session) -> Result<Vec<u8>, Error> {
    if session.looks_at_another_thread() {
        return Err(Error::Unknown("no signal stopped this thread".to_owned()));
    }
    let debuggee = &session.debuggee;
    let here = debuggee.at(session.stop.time);
    if let Some(death) = debuggee.run.death_at(here, &Cancel::new())? {
        return Ok(death.information.to_vec());
    }
    let mut bytes = vec![0; retro_query::SIGINFO_SIZE];
    if let Reason::Signal(signal) | Reason::HandledSignal(signal) = session.stop.reason {
        let filter = RowFilter::Number(RowClass::Signal, signal.into());
        let rows = debuggee.run.rows(here, Direction::Backward, filter, &Cancel::new())?;
        for row in rows.take(1) {
            if let Row::Signal { info, .. } = row?.row {
                let len = info.len().min(bytes.len());
                bytes[..len].copy_from_slice(&info[..len]);
            }
        }
        return Ok(bytes);
    }
    const TRAP: u8 = 5;
    bytes[0] = TRAP;
    Ok(bytes)
}

/// A text in XML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // XML has no way to say these.
            control if control.is_control() => escaped.push('?'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        assert_eq!(escaped("a<b>&\"c\"\u{1}"), "a&lt;b&gt;&amp;&quot;c&quot;?");
    }
}
