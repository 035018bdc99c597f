//! Names with wildcards: `*` for any characters, `?` for one, a backslash before a character that means itself.

use std::str::Chars;

/// A pattern for names of functions, files, system calls or signals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// No two [`Element::Many`] follow each other.
    elements: Vec<Element>,
}

/// What stands at a place of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Element {
    /// This character.
    Character(char),
    /// Any character.
    One,
    /// Any characters, or none.
    Many,
}

impl Pattern {
    /// A pattern as it is written, without quotes.
    pub fn new(text: &str) -> Pattern {
        let mut pattern = Pattern { elements: Vec::new() };
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            pattern.push(match character {
                '*' => Element::Many,
                '?' => Element::One,
                // A backslash at the end means itself.
                '\\' => Element::Character(characters.next().unwrap_or('\\')),
                other => Element::Character(other),
            });
        }
        pattern
    }

    /// The pattern that only this name matches.
    pub fn exact(name: &str) -> Pattern {
        Pattern { elements: name.chars().map(Element::Character).collect() }
    }

    fn push(&mut self, element: Element) {
        if element != Element::Many || self.elements.last() != Some(&Element::Many) {
            self.elements.push(element);
        }
    }

    pub(super) fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The name, if there are no wildcards.
    pub fn literal(&self) -> Option<String> {
        let character = |element: &Element| match element {
            Element::Character(character) => Some(*character),
            Element::One | Element::Many => None,
        };
        self.elements.iter().map(character).collect()
    }

    /// Whether every name matches.
    pub fn is_anything(&self) -> bool {
        self.elements == [Element::Many]
    }

    /// Whether all of a text matches.
    pub fn matches(&self, text: &str) -> bool {
        matches(&self.elements, text)
    }

    /// Whether the name of a function matches, with any of the paths that lead to it or with none: `push_back` and
    /// `vector<*>::push_back` both match `std::vector<int>::push_back`.
    pub fn matches_function(&self, name: &str) -> bool {
        self.matches(name) || inner_names(name).any(|inner| self.matches(inner))
    }

    /// Whether the path of a file matches, or its last parts: `ledger.c` and `src/*.c` both match
    /// `/home/me/src/ledger.c`.
    pub fn matches_path(&self, path: &str) -> bool {
        let parts = path.match_indices('/').map(|(at, slash)| &path[at + slash.len()..]);
        self.matches(path) || parts.into_iter().any(|part| self.matches(part))
    }
}

/// Matches from the left. If a character does not fit, the last [`Element::Many`] takes one more: what an earlier one
/// could take makes no difference, so nothing else has to be tried.
fn matches(elements: &[Element], text: &str) -> bool {
    let mut at = 0;
    let mut rest = text.chars();
    let mut retry: Option<(usize, Chars)> = None;
    loop {
        let mut behind = rest.clone();
        let fits = match (elements.get(at), behind.next()) {
            (Some(Element::Many), _) if at + 1 == elements.len() => return true,
            (Some(Element::Many), _) => {
                at += 1;
                retry = Some((at, rest.clone()));
                continue;
            }
            (None, None) => return true,
            (Some(Element::One), Some(_)) => true,
            (Some(Element::Character(expected)), Some(found)) => *expected == found,
            // Whoever has run out of text does so again, however much is skipped.
            (Some(_), None) => return false,
            (None, Some(_)) => false,
        };
        if fits {
            at += 1;
            rest = behind;
            continue;
        }
        let Some((begin, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        (at, rest) = (*begin, from.clone());
    }
}

/// What stands behind each `::` that is not within brackets.
fn inner_names(name: &str) -> impl Iterator<Item = &str> {
    let bytes = name.as_bytes();
    let mut depth = 0usize;
    (0..bytes.len()).filter_map(move |at| {
        match bytes[at] {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            // The end of an arrow closes nothing.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => return Some(&name[at + 1..]),
            _ => {}
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wildcards_match_what_they_should() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*a", "bab", false),
            ("*ab", "aab", true),
            ("a*b*c", "abbcbc", true),
            ("a*b*c", "abbcb", false),
            ("?", "", false),
            ("?", "ö", true),
            ("a**b", "ab", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            (r"a\", r"a\", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn functions_match_with_or_without_their_paths() {
        for (pattern, name, expected) in [
            ("main", "main", true),
            ("main", "domain", false),
            ("push_back", "std::vector<int>::push_back", true),
            ("vector<*>::push_back", "std::vector<int>::push_back", true),
            ("vector*", "std::vector<int>::push_back", true),
            ("int>::push_back", "std::vector<a::int>::push_back", false),
            ("fmt", "<core::fmt::Arguments as core::fmt::Display>::fmt", true),
            ("call", "core::ops::Fn<fn(i32) -> a::b>::call", true),
            ("b>::call", "core::ops::Fn<fn(i32) -> a::b>::call", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches_function(name),
                expected,
                "{pattern} on {name}"
            );
        }
    }

    #[test]
    fn paths_match_by_their_last_parts() {
        for (pattern, path, expected) in [
            ("ledger.c", "/home/me/src/ledger.c", true),
            ("src/ledger.c", "/home/me/src/ledger.c", true),
            ("edger.c", "/home/me/src/ledger.c", false),
            ("*.c", "ledger.c", true),
            ("/home/*", "/home/me/src/ledger.c", true),
            ("src", "/home/me/src/ledger.c", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches_path(path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn hostile_patterns_take_no_exponential_time() {
        let pattern = Pattern::new(&"*a".repeat(500));
        assert!(!pattern.matches(&"a".repeat(499)));
        assert!(!Pattern::new(&format!("{}b", "*a".repeat(500))).matches(&"a".repeat(20_000)));
        assert!(!pattern.matches_function(&"::".repeat(400)));
    }

    /// The definition, in time that grows exponentially.
    fn matches_by_definition(elements: &[Element], text: &[char]) -> bool {
        match (elements, text) {
            ([], []) => true,
            ([Element::Many, rest @ ..], _) => {
                (0..=text.len()).any(|taken| matches_by_definition(rest, &text[taken..]))
            }
            ([Element::One, rest @ ..], [_, behind @ ..]) => matches_by_definition(rest, behind),
            ([Element::Character(expected), rest @ ..], [found, behind @ ..]) => {
                expected == found && matches_by_definition(rest, behind)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(pattern in "[ab?*]{0,8}", text in "[ab]{0,10}") {
            let pattern = Pattern::new(&pattern);
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(
                pattern.matches(&text),
                matches_by_definition(pattern.elements(), &characters)
            );
        }
    }
}
