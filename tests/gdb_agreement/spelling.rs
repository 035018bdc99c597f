//! Words in which gdb and the query engine say the same thing differently, brought into one form.
//!
//! - Names of types and functions: gdb writes C++'s in a form of its own (`long` for `long int`, `T const` for `const T`), and Rust's
//!   with the paths and parameters of debug information (`alloc::vec::Vec<u8, ..>`, `{impl#3}`, `{closure#0}`), where the query
//!   engine writes them as Rust does.
//! - Structures of which nothing is left are `<optimized out>` as a whole, or each of their members is.
//! - gdb takes names with two underscores in lower case for Ada's, and writes `a.b` for `a__b` and `x` for `x.12`.
//! - gdb shows a part of a character at the end of a text as `<incomplete sequence \335>`.
//! - gdb shows a `&str` as text, even if it is asked for members.

/// The common form of a value.
pub fn value(text: &str) -> String {
    let text = without_ada(&without_incomplete_sequences(text));
    let text = without_paths(&without_parameters(&text)).replace(" (", "(").replace("const ", "");
    without_lost_structures(text)
}

/// The same, with Rust's texts left out.
pub fn value_without_texts(text: &str) -> String {
    let mut rest = text;
    let mut result = String::new();
    while let Some((before, after)) = rest.split_once('"') {
        result.push_str(before);
        result.push_str("&str");
        rest = end_of_text(after);
    }
    result.push_str(rest);
    while let Some((before, after)) = result.split_once("&str {data_ptr: ")
        && let Some((_, after)) = after.split_once('}')
    {
        result = format!("{before}&str{after}");
    }
    value(&result)
}

/// What follows a text, whose first quotation mark is read.
fn end_of_text(text: &str) -> &str {
    let mut is_escaped = false;
    for (index, letter) in text.char_indices() {
        match letter {
            '"' if !is_escaped => return &text[index + 1..],
            _ => is_escaped = letter == '\\' && !is_escaped,
        }
    }
    ""
}

/// The common form of a function's name: of Rust's only the last part, which is the same in all ways to write them.
pub fn function(name: &str, is_rust: bool) -> String {
    let name = without_parameters(name);
    let name = name.split('(').next().unwrap_or_default().trim_end_matches("const").trim();
    if !is_rust {
        return name.to_string();
    }
    let last = name.rsplit("::").find(|part| !part.is_empty()).unwrap_or_default();
    match last {
        _ if last.contains("closure") => "closure".to_string(),
        // The function behind `#[panic_handler]` has a name in the source and another one for the linker.
        "rust_begin_unwind" => "panic_handler".to_string(),
        _ => last.to_string(),
    }
}

/// Without what stands in angle brackets right behind a name.
fn without_parameters(text: &str) -> String {
    let mut result = String::new();
    let mut depth = 0;
    let mut last = ' ';
    for letter in text.chars() {
        match letter {
            '<' if depth > 0 || last.is_alphanumeric() || "_:".contains(last) => depth += 1,
            '>' if depth > 0 && last != '-' => depth -= 1,
            _ if depth == 0 => result.push(letter),
            _ => {}
        }
        last = letter;
    }
    result
}

/// Without the paths in front of names.
fn without_paths(text: &str) -> String {
    let mut parts = text.split("::");
    let mut result = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let is_of_path = |letter: char| letter.is_alphanumeric() || "_#{}&".contains(letter);
        let kept = result.trim_end_matches(is_of_path).len();
        result.truncate(kept);
        result.push_str(part);
    }
    result
}

/// Symbols as they are before gdb takes them for Ada's, and after.
fn without_ada(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" <") {
        let Some((symbol, after)) = after.split_once('>') else { break };
        let (name, offset) = symbol.split_once('+').unwrap_or((symbol, ""));
        let name = name.replace("__", ".");
        let name =
            name.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('.');
        result.push_str(&format!("{before} <{name}+{offset}>"));
        rest = after;
    }
    result + rest
}

fn without_incomplete_sequences(text: &str) -> String {
    let mut text = text.to_string();
    while let Some((before, after)) = text.split_once("<incomplete sequence ")
        && let Some((bytes, after)) = after.split_once('>')
    {
        let opened =
            before.strip_suffix("\", ").map_or_else(|| format!("{before}\""), str::to_string);
        text = format!("{opened}{bytes}\"{after}");
    }
    text
}

/// Structures of which every member is optimized out are so themselves.
fn without_lost_structures(text: String) -> String {
    const LOST: &str = "<optimized out>";
    const EMPTY: &str = "<No data fields>";
    let mut text = text.replace(&format!("{{{EMPTY}}}"), EMPTY);
    let mut from = 0;
    while let Some(close) = text[from..].find('}').map(|at| from + at) {
        let Some(open) = text[..close].rfind('{') else { break };
        let members = &text[open + 1..close];
        let is_lost = |member: &str| member.ends_with(LOST) || member.ends_with(EMPTY);
        if !members.contains(LOST) || !members.split(", ").all(is_lost) {
            // Its braces must not be taken for those of the structure around it.
            text.replace_range(close..=close, "]");
            text.replace_range(open..=open, "[");
            from = close + 1;
            continue;
        }
        // With the name of its type, where there is one.
        let is_of_name = |letter: char| letter.is_alphanumeric() || "_ ".contains(letter);
        let start = text[..open].trim_end_matches(is_of_name).len();
        let gap = if text[..start].ends_with(['=', ':', ',']) { " " } else { "" };
        text.replace_range(start..=close, &format!("{gap}{LOST}"));
        from = start;
    }
    text
}
