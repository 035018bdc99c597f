//! Words in which gdb and the query engine say the same thing differently, brought into one form.
//!
//! - Names of types and functions: gdb writes C++'s in a form of its own (`long` for `long int`, `T const` for `const T`), and Rust's
//!   with the paths and parameters of debug information (`alloc::vec::Vec<u8, ..>`, `{impl#3}`, `{closure#0}`), where the query
//!   engine writes them as Rust does.
//! - Structures of which nothing is left are `<optimized out>` as a whole, or each of their members is.
//! - gdb takes names with two underscores in lower case for Ada's, and writes `a.b` for `a__b` and `x` for `x.12`.
//! - `std::string` is `std::basic_string` with its parameters.
//! - gdb shows a part of a character at the end of a text as `<incomplete sequence \335>`, and loses the character before it.
//! - An enum of Rust whose bytes are those of none of its variants, because nothing is there yet, is an error to gdb.
//! - gdb shows a `&str` as text and a `&[T]` as its elements, even if it is asked for members.

/// What a value that the compiler has not kept looks like.
const LOST: &str = "<optimized out>";

/// The same, where gdb wanted to show the elements of a slice of Rust.
const LOST_SLICE: &str = "<error reading variable: value has been optimized out>";

/// What an enum of Rust looks like that has no variant, to gdb and to us.
const NO_VARIANT: (&str, &str) =
    ("<error reading variable: Could not find active enum variant>", "<unknown variant>");

/// What gdb shows instead of the elements of a slice of Rust that are in no memory.
const UNREADABLE_SLICE: &str = " <error reading variable: Cannot access memory at address ";

/// The common form of a value.
pub fn value(text: &str) -> String {
    let text = text.replace(LOST_SLICE, LOST).replace(NO_VARIANT.0, NO_VARIANT.1);
    let text = without_ada(&without_braces(&text));
    let text = without_paths(&without_parameters(&text));
    let text = text.replace(" (", "(").replace(" {", "{").replace("const ", "");
    without_lost_structures(text)
}

/// The same, with what Rust's slices refer to left out.
pub fn value_without_slices(text: &str) -> String {
    let mut rest = text;
    let mut result = String::new();
    while let Some((before, after)) = rest.split_once('"') {
        result.push_str(before);
        result.push_str("&str");
        rest = end_of_text(after);
    }
    result.push_str(rest);
    while let Some((before, after)) = result.split_once(" {data_ptr: ")
        && let Some((_, after)) = after.split_once('}')
    {
        result = format!("{before}{after}");
    }
    while let Some((before, after)) = result.split_once(UNREADABLE_SLICE)
        && let Some((_, after)) = after.split_once('>')
    {
        result = format!("{before}{after}");
    }
    value(&without_elements(&without_addresses_of_slices(&result)))
}

/// `&[T]` for `&[T] 0x1234`: gdb shows where a slice is that is longer than memory can be.
fn without_addresses_of_slices(text: &str) -> String {
    let mut parts = text.split("] 0x");
    let mut result = parts.next().unwrap_or_default().to_string();
    for part in parts {
        result.push(']');
        result.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()));
    }
    result
}

/// `&[T]` for `&[T] [1, 2]`.
fn without_elements(text: &str) -> String {
    let Some((before, after)) = text.split_once("] [") else { return text.to_string() };
    let mut depth = 1;
    let end = after.find(|letter| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        depth == 0
    });
    let rest = end.map_or("", |end| &after[end + 1..]);
    format!("{before}]{}", without_elements(rest))
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

/// The same for slices of Rust whose elements are not known: gdb shows nothing of their lengths then.
pub fn value_without_lost_slices(text: &str) -> String {
    let text = text.replace(&format!(" {LOST_SLICE}"), "");
    // Texts have no type before them.
    value_without_slices(&text.replace(LOST_SLICE, "&str"))
}

/// A value as gdb shows it, with another word for what no piece of a variable covers.
pub fn value_without_uncovered(text: &str) -> String {
    value(&text.replace("<synthetic pointer>", LOST))
}

/// Whether values are the same but for addresses that gdb shows where we know of nothing.
pub fn is_same_but_functions(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) = (value_without_names(ours), value_without_names(theirs));
    let mut known = ours.split(LOST);
    let Some(mut rest) = known.next().and_then(|first| theirs.strip_prefix(first)) else {
        return false;
    };
    for part in known {
        let Some(digits) = rest.strip_prefix("0x") else { return false };
        let after = digits.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
        let after = after
            .strip_prefix(" <+")
            .map_or(after, |symbol| symbol.split_once('>').map_or(symbol, |(_, after)| after));
        let Some(next) = after.strip_prefix(part) else { return false };
        rest = next;
    }
    rest.is_empty()
}

/// The common form of a function's name: of Rust's only the last part, which is the same in all ways to write them.
pub fn function(name: &str, is_rust: bool) -> String {
    let name =
        without_parameters(&name.replace("(anonymous)::", "").replace("operator()", "operator[]"));
    let name = name.split('(').next().unwrap_or_default().trim_end_matches("const").trim();
    let name = without_crate_numbers(name);
    let name = ["string", "istream", "ostream", "iostream"].iter().fold(name, |name, class| {
        name.replace(&format!("std::{class}::"), &format!("std::basic_{class}::"))
    });
    if !is_rust {
        return name;
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
            '<' if depth > 0 || last.is_alphanumeric() || "_:}".contains(last) => depth += 1,
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

/// `alloc::vec` for `alloc[fdfd2bd8633a6659]::vec`: where there is no debug information, gdb shows which `alloc` it is.
fn without_crate_numbers(name: &str) -> String {
    let mut result = name.to_string();
    while let Some((before, after)) = result.split_once('[')
        && let Some((number, after)) = after.split_once(']')
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        result = format!("{before}{after}");
    }
    result
}

/// Symbols as they are before gdb takes them for Ada's, and after.
fn without_ada(text: &str) -> String {
    with_symbols(text, |name, offset| {
        let name = name.replace("__", ".");
        let name =
            name.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('.');
        format!(" <{name}+{offset}>")
    })
}

/// A value whose addresses have no names, but how far they are behind something that has one.
pub fn value_without_names(text: &str) -> String {
    value(&with_symbols(text, |name, offset| match is_made_by_linker(name) {
        true => String::new(),
        false => format!(" <+{offset}>"),
    }))
}

/// gdb names no data without size, and the places of the addresses of functions in other files.
fn is_made_by_linker(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "__ehdr_start",
        "__frame_dummy_init_array_entry",
        "__do_global_dtors_aux_fini_array_entry",
        "__dso_handle",
        "_DYNAMIC",
        "_GLOBAL_OFFSET_TABLE_",
        "__GNU_EH_FRAME_HDR",
        "__FRAME_END__",
        "__TMC_END__",
        "__bss_start",
        "__data_start",
        "data_start",
        "_edata",
        "_end",
    ];
    NAMES.contains(&name) || name.ends_with("@got.plt") || name.ends_with("@got[plt]")
}

/// A value with other words for the symbols behind its addresses, made from their names and offsets.
fn with_symbols(text: &str, words: impl Fn(&str, &str) -> String) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" <") {
        result.push_str(before);
        let is_address =
            before.rsplit([' ', '{', '(']).next().is_some_and(|word| word.starts_with("0x"));
        let Some((symbol, after)) = split_symbol(after).filter(|_| is_address) else {
            result.push_str(" <");
            rest = after;
            continue;
        };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (name, offset) = (symbol.rsplit_once('+'))
            .filter(|(_, offset)| is_number(offset))
            .unwrap_or((symbol, ""));
        result.push_str(&words(name, offset));
        rest = after;
    }
    result + rest
}

/// A symbol, whose opening bracket is read, and what follows its closing one.
fn split_symbol(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    let mut last = ' ';
    let end = text.find(|letter| {
        depth += i32::from(letter == '<') - i32::from(letter == '>' && last != '-');
        last = letter;
        depth == 0
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// What gdb shows before the first part of a character, if it shows one.
pub fn before_incomplete_sequence(text: &str) -> Option<&str> {
    let (before, _) = text.split_once("<incomplete sequence ")?;
    Some(before.strip_suffix("\", ").unwrap_or(before))
}

/// `closure_env` for `{closure_env#0}`: its braces are those of no structure.
fn without_braces(text: &str) -> String {
    let mut result = text.to_string();
    while let Some((before, after)) = result.split_once("{closure_env#")
        && let Some((_, after)) = after.split_once('}')
    {
        result = format!("{before}closure_env{after}");
    }
    result
}

/// Structures, tuples and arrays of which every member is optimized out, or empty, are so themselves.
fn without_lost_structures(text: String) -> String {
    // The empty ones that are common.
    const NOTHING: [&str; 5] = [LOST, "<No data fields>", "PhantomData", "Global", "()"];
    let is_lost = |member: &str| NOTHING.iter().any(|nothing| member.ends_with(nothing));
    let mut result = String::new();
    let mut open = Vec::new();
    for letter in text.chars() {
        result.push(letter);
        match letter {
            '{' | '[' | '(' => open.push(result.len() - 1),
            '}' | ']' | ')' => {
                let Some(start) = open.pop() else { continue };
                let members = &result[start + 1..result.len() - 1];
                if !members.split(", ").all(is_lost) {
                    continue;
                }
                // With the name of its type, where there is one.
                let is_of_name = |letter: char| letter.is_alphanumeric() || "_ &".contains(letter);
                let start = result[..start].trim_end_matches(is_of_name).len();
                let gap = if result[..start].ends_with(['=', ':', ',']) { " " } else { "" };
                result.truncate(start);
                result.push_str(gap);
                result.push_str(LOST);
            }
            _ => {}
        }
    }
    result
}
