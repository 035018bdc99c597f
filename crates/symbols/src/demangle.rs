//! Names as they were in the source.
//!
//! Mangled names come from files that may be hostile: both schemes can say in a few bytes what takes megabytes to
//! write out, so that what is written is bounded.

use std::fmt::{self, Write};

/// Bytes of a name before demangling; real ones of generic code reach a few thousand.
const MANGLED_LIMIT: usize = 16 << 10;

/// Bytes of a name that is shown; the rest is cut.
const NAME_LIMIT: usize = 4 << 10;

/// A name for people. What is not mangled stays as it is.
pub(crate) fn demangle(name: &[u8]) -> String {
    demangle_as(name, cpp_demangle::DemangleOptions::new().no_params().no_return_type())
}

/// As [`demangle`], with the parameters of functions as far as the name tells them.
pub(crate) fn demangle_with_parameters(name: &[u8]) -> String {
    demangle_as(name, cpp_demangle::DemangleOptions::new().no_return_type())
}

fn demangle_as(name: &[u8], options: cpp_demangle::DemangleOptions) -> String {
    let name = String::from_utf8_lossy(&name[..name.len().min(MANGLED_LIMIT)]);
    // The version of a dynamic symbol is not part of its name; that it is a stub is said behind the name.
    let (name, suffix) = name.split_once('@').unwrap_or((&name, ""));
    let mut shown = Bounded::default();
    if let Ok(symbol) = rustc_demangle::try_demangle(name) {
        // Without the hash; an error means that the bound was reached.
        let _ = write!(shown, "{symbol:#}");
    } else if name.starts_with("_Z") {
        demangle_cpp(name, options, &mut shown);
    }
    if shown.text.is_empty() {
        let _ = shown.write_str(name);
    }
    if suffix == "plt" {
        let _ = shown.write_str("@plt");
    }
    shown.text
}

fn demangle_cpp(name: &str, options: cpp_demangle::DemangleOptions, shown: &mut Bounded) {
    let limit = cpp_demangle::ParseOptions::default().recursion_limit(64);
    let Ok(symbol) = cpp_demangle::Symbol::new_with_options(name, &limit) else { return };
    let complete = symbol.structured_demangle(shown, &options.recursion_limit(64)).is_ok();
    if !complete && !shown.full {
        shown.text.clear();
    }
}

/// Takes so much text and no more.
#[derive(Default)]
struct Bounded {
    text: String,
    full: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = NAME_LIMIT - self.text.len();
        let taken = part.floor_char_boundary(room);
        self.text.push_str(&part[..taken]);
        if taken < part.len() {
            self.full = true;
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        for (mangled, name) in [
            ("main", "main"),
            ("write@@GLIBC_2.2.5", "write"),
            ("_ZN5shape4areaEv@plt", "shape::area@plt"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN5shape6circle4areaEv", "shape::circle::area"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            ("_Z7largestIiET_S0_S0_", "largest<int>"),
            ("_Znot_mangled", "_Znot_mangled"),
            ("", ""),
        ] {
            assert_eq!(demangle(mangled.as_bytes()), name);
        }
    }

    #[test]
    fn what_unfolds_without_end_is_cut() {
        // Each substitution doubles what comes before.
        let mut mangled = String::from("_Z1fSt4pairI");
        for _ in 0..4000 {
            mangled.push_str("St4pairIS_S_ES0_");
        }
        assert!(demangle(mangled.as_bytes()).len() <= NAME_LIMIT);
        assert_eq!(demangle(&[0xff; 100_000]).len(), NAME_LIMIT - NAME_LIMIT % 3);
        let nested = format!("_Z{}1f", "N".repeat(10_000));
        assert_eq!(demangle(nested.as_bytes()).len(), NAME_LIMIT);
    }
}
