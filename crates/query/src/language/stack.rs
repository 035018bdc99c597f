//! Patterns for call stacks: `<**, a, b>` is any stack whose innermost function is `b`, called by `a`.
//!
//! Frames are asked for one by one, from the innermost outwards, and no more of them than it takes: whether a stack
//! ends with `a, b` is known after two of them, however deep it is.

use std::convert::Infallible;

use super::Pattern;

/// A pattern for call stacks, the innermost function last. It always matches whole stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackPattern {
    /// What the stack is made of, the outermost first; not empty.
    pub elements: Vec<StackElement>,
}

/// A part of a [`StackPattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackElement {
    /// One frame, of a function with such a name; `*` matches frames without a name, too.
    Frame(Pattern),
    /// Any number of frames, or none: `**`.
    Frames,
}

impl StackPattern {
    /// Whether a stack matches, given as the names of its functions, the innermost last.
    pub fn matches(&self, functions: &[&str]) -> bool {
        let mut inwards = functions.iter().rev();
        let next = || Ok::<_, Infallible>(inwards.next().map(|name| name.to_string()));
        match self.matches_frames(next) {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }

    /// Whether a stack matches whose functions `next` names, the innermost first; `None` means that there are no more.
    ///
    /// Works from the innermost frame outwards. If a frame does not fit, the last `**` takes one more: what an earlier
    /// one could take makes no difference, so that the time is at most the product of both lengths.
    pub fn matches_frames<E>(
        &self,
        mut next: impl FnMut() -> Result<Option<String>, E>,
    ) -> Result<bool, E> {
        let elements: Vec<&StackElement> = self.elements.iter().rev().collect();
        let mut known: Vec<String> = Vec::new();
        let mut is_complete = false;
        let (mut at, mut level) = (0, 0);
        let mut retry = None;
        loop {
            if let Some(StackElement::Frames) = elements.get(at) {
                at += 1;
                if at == elements.len() {
                    return Ok(true);
                }
                retry = Some((at, level));
                continue;
            }
            if level == known.len() && !is_complete {
                match next()? {
                    Some(name) => known.push(name),
                    None => is_complete = true,
                }
            }
            match (elements.get(at), known.get(level)) {
                (None, None) => return Ok(true),
                // Whoever has run out of frames does so again, however many are skipped.
                (Some(_), None) => return Ok(false),
                (Some(StackElement::Frame(pattern)), Some(name))
                    if pattern.matches_function(name) =>
                {
                    (at, level) = (at + 1, level + 1);
                }
                _ => {
                    let Some((begin, from)) = &mut retry else { return Ok(false) };
                    *from += 1;
                    (at, level) = (*begin, *from);
                }
            }
        }
    }

    /// The pattern for the innermost function, if it is known.
    pub fn innermost(&self) -> Option<&Pattern> {
        match self.elements.last()? {
            StackElement::Frame(pattern) if !pattern.is_anything() => Some(pattern),
            _ => None,
        }
    }

    /// Patterns of which each matches some function on the stack.
    pub fn required(&self) -> impl Iterator<Item = &Pattern> {
        self.elements.iter().filter_map(|element| match element {
            StackElement::Frame(pattern) if !pattern.is_anything() => Some(pattern),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> StackPattern {
        let element = |text: &str| match text {
            "**" => StackElement::Frames,
            other => StackElement::Frame(Pattern::new(other)),
        };
        StackPattern { elements: text.split_whitespace().map(element).collect() }
    }

    #[test]
    fn stacks_match_as_a_whole() {
        for (elements, functions, expected) in [
            ("** a b", "main a b", true),
            ("** a b", "a b", true),
            ("** a b", "main a b c", false),
            ("** a * c", "main a b c", true),
            ("** a * c", "main a c", false),
            ("main ** b", "main x y b", true),
            ("main ** b", "main b", true),
            ("main ** b", "start main b", false),
            ("main **", "main", true),
            ("a b", "a b", true),
            ("a b", "x a b", false),
            ("** a ** b **", "x a y b z", true),
            ("** a ** b **", "x b y a z", false),
            ("** a a b", "a b a a a b", true),
            ("** ** a", "a", true),
            ("** parse_*", "main parse_line", true),
            ("*", "", false),
            ("**", "", true),
        ] {
            let functions: Vec<&str> = functions.split_whitespace().collect();
            let answer = pattern(elements).matches(&functions);
            assert_eq!(answer, expected, "{elements} on {functions:?}");
        }
    }

    #[test]
    fn no_more_frames_are_asked_for_than_needed() {
        let mut asked = 0;
        let endless = || {
            asked += 1;
            Ok::<_, Infallible>(Some(if asked == 1 { "b" } else { "a" }.to_string()))
        };
        assert_eq!(pattern("** a b").matches_frames(endless), Ok(true));
        assert_eq!(asked, 2);
    }

    #[test]
    fn an_error_ends_the_match() {
        assert_eq!(pattern("** a").matches_frames(|| Err("unreadable")), Err("unreadable"));
    }

    #[test]
    fn hostile_patterns_take_no_exponential_time() {
        let hostile = pattern(&"** a ".repeat(300));
        assert!(!hostile.matches(&["a"; 299]));
        assert!(!pattern(&format!("b {}", "** a ".repeat(300))).matches(&["a"; 5_000]));
    }

    fn matches_by_definition(elements: &[StackElement], functions: &[&str]) -> bool {
        match (elements, functions) {
            ([], []) => true,
            ([StackElement::Frames, rest @ ..], _) => {
                (0..=functions.len()).any(|taken| matches_by_definition(rest, &functions[taken..]))
            }
            ([StackElement::Frame(pattern), rest @ ..], [name, behind @ ..]) => {
                pattern.matches_function(name) && matches_by_definition(rest, behind)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(
            elements in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "**"]), 1..8),
            functions in prop::collection::vec(prop::sample::select(vec!["a", "b"]), 0..10),
        ) {
            let pattern = pattern(&elements.join(" "));
            prop_assert_eq!(
                pattern.matches(&functions),
                matches_by_definition(&pattern.elements, &functions)
            );
        }
    }
}
