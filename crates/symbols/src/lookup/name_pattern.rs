//! Which names are meant by what somebody types.
//!
//! A name fits if it ends with the components that were typed. Parameters, template arguments, tags of g++ and the hash
//! that Rust appends count only if they were typed. A star stands for anything, if no name has it as it is.

/// What somebody typed for a name.
#[derive(Clone, Debug)]
pub(crate) struct NamePattern {
    components: Vec<String>,
    /// With the parentheses, without spaces.
    parameters: Option<String>,
}

impl NamePattern {
    pub(crate) fn new(typed: &str) -> NamePattern {
        let (name, parameters) = split_parameters(typed.trim());
        let name = without_hash(name).trim_start_matches("::");
        NamePattern { components: components(name), parameters: parameters.map(condensed) }
    }

    /// The last component, without template arguments: what tables are searched for.
    pub(crate) fn last(&self) -> &str {
        let last = self.components.last().map_or("", String::as_str);
        base(last)
    }

    /// Whether it asks for parameters.
    pub(crate) fn has_parameters(&self) -> bool {
        self.parameters.is_some()
    }

    /// Whether it may be meant to stand for several names.
    pub(crate) fn has_star(&self) -> bool {
        self.components.iter().any(|component| component.contains('*'))
    }

    /// Whether a full name fits, parameters aside.
    pub(crate) fn fits(&self, name: &str) -> bool {
        self.fits_by(name, |typed, known| {
            typed == known || condensed(typed) == condensed(known) || typed == base(known)
        })
    }

    /// As [`NamePattern::fits`], with stars.
    pub(crate) fn fits_with_stars(&self, name: &str) -> bool {
        self.fits_by(name, |typed, known| fits_star(typed, known) || fits_star(typed, base(known)))
    }

    /// Whether the parameters of a full name fit.
    pub(crate) fn fits_parameters(&self, name: &str) -> bool {
        let Some(wanted) = &self.parameters else { return true };
        split_parameters(name).1.is_some_and(|found| condensed(found) == *wanted)
    }

    fn fits_by(&self, name: &str, fits: impl Fn(&str, &str) -> bool) -> bool {
        let known = components(without_hash(name));
        let Some(skipped) = known.len().checked_sub(self.components.len()) else { return false };
        let mut pairs = self.components.iter().zip(&known[skipped..]);
        !self.components.is_empty() && pairs.all(|(typed, known)| fits(typed, known))
    }
}

/// The name, and the parentheses at its end with what may follow.
fn split_parameters(name: &str) -> (&str, Option<&str>) {
    let after_operator = name.rfind("operator()").map_or(0, |at| at + "operator()".len());
    let mut depth = 0;
    for (at, byte) in name.bytes().enumerate().skip(after_operator) {
        match byte {
            b'<' => depth += 1,
            b'>' if depth > 0 => depth -= 1,
            // Parentheses before `::` are part of a name: `(anonymous namespace)::f`.
            b'(' if depth == 0 && !name[at..].contains(")::") => {
                return (name[..at].trim_end(), Some(&name[at..]));
            }
            _ => {}
        }
    }
    (name, None)
}

/// The parts between `::`, those in template arguments and parentheses aside. Of `<Type as Trait>::name` it is
/// those of the type that count.
fn components(name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0i32);
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = (depth - 1).max(0),
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => {
                push_component(&mut parts, &name[start..at]);
                start = at + 2;
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    push_component(&mut parts, &name[start..]);
    parts
}

fn push_component(parts: &mut Vec<String>, part: &str) {
    let part = part.trim();
    let is_last_resort = part.is_empty() && parts.is_empty();
    let inner = part.strip_prefix('<').and_then(|part| part.strip_suffix('>'));
    match inner {
        // Arguments of the last one, as in `largest::<i32>`.
        Some(_) if !parts.is_empty() => {
            if let Some(last) = parts.last_mut() {
                last.push_str(part);
            }
        }
        // Once only: types of types stay as they are.
        Some(inner) => {
            let of_type = inner.split(" as ").next().unwrap_or_default();
            parts.extend(of_type.split("::").map(str::to_string));
        }
        None if !is_last_resort => parts.push(part.to_string()),
        None => {}
    }
}

/// What g++ appends to functions whose results, and not whose names, tell two versions of the library apart.
const ABI_TAG: &str = "[abi:";

/// A component without template arguments and tags.
fn base(component: &str) -> &str {
    if component.starts_with("operator") {
        return component;
    }
    let component = component.find(ABI_TAG).map_or(component, |end| &component[..end]);
    match component.find('<') {
        None | Some(0) => component,
        Some(end) => &component[..end],
    }
}

/// Without the hash that Rust appends.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((rest, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            rest
        }
        _ => name,
    }
}

fn condensed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Whether a text is what a pattern with stars stands for.
fn fits_star(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, name: &str, expected: bool) {
        assert_eq!(NamePattern::new(typed).fits(name), expected, "{typed} for {name}");
    }

    #[test]
    fn a_name_fits_by_its_last_components() {
        check("main", "main", true);
        check("main", "domain", false);
        check("area", "shape::circle::area", true);
        check("circle::area", "shape::circle::area", true);
        check("ircle::area", "shape::circle::area", false);
        check("::area", "area", true);
        check("shape::circle::area(int)", "shape::circle::area", true);
        check("a::shape::circle::area", "shape::circle::area", false);
        check("", "main", false);
    }

    #[test]
    fn arguments_and_hashes_count_if_they_are_typed() {
        check("push", "stack<int>::push", true);
        check("stack::push", "stack<int>::push", true);
        check("stack<int>::push", "stack<int>::push", true);
        check("stack<char>::push", "stack<int>::push", false);
        check("pair<int, int>", "pair<int,int>", true);
        check("largest", "largest<std::vector<int> >", true);
        check("write_fmt", "core::fmt::Write::write_fmt::h0123456789abcdef", true);
        check("fmt::Write::write_fmt::h0123456789abcdef", "core::fmt::Write::write_fmt", true);
        check("Point::fmt", "<geometry::Point as core::fmt::Display>::fmt", true);
        check("fmt", "<geometry::Point as core::fmt::Display>::fmt", true);
        check("largest", "names::largest::<i32>", true);
        check("give", "give[abi:cxx11]", true);
        check("give[abi:cxx11]", "give[abi:cxx11]", true);
        check("give", "give[abi:cxx11]<int>", true);
        check("box::give", "box<int>::give[abi:cxx11]", true);
        check("give[abi:new]", "give[abi:cxx11]", false);
        check("largest::<f64>", "names::largest::<i32>", false);
        check("Point::moved", "<names::geometry::Point>::moved", true);
        check("operator<", "shape::operator<", true);
        check("operator()", "sorter::operator()", true);
    }

    #[test]
    fn parameters_are_compared_without_spaces() {
        let pattern = NamePattern::new("scale(int, char *)");
        assert!(pattern.fits_parameters("shape::scale(int, char*)"));
        assert!(!pattern.fits_parameters("shape::scale(int)"));
        assert!(NamePattern::new("(anonymous namespace)::f").fits("(anonymous namespace)::f"));
        assert!(!NamePattern::new("(anonymous namespace)::f").has_parameters());
        assert!(NamePattern::new("sorter::operator()(int)").fits("sorter::operator()"));
    }

    #[test]
    fn stars_stand_for_anything() {
        for (typed, name, expected) in [
            ("read*", "read_all", true),
            ("*all", "read_all", true),
            ("r*_*l", "read_all", true),
            ("r*x", "read_all", false),
            ("file::*", "file::read", true),
            ("file::*", "pipe::read", false),
        ] {
            assert_eq!(NamePattern::new(typed).fits_with_stars(name), expected, "{typed} {name}");
        }
    }
}
