//! Containers of the standard libraries of C++ (libstdc++) and Rust, seen as what they hold.
//!
//! They are known by their names and by the members that they must have; whatever has the name and not the members is
//! shown as the record that it is.

use std::sync::Arc;

use crate::types::{Encoding, Kind, Language, Type, VISITS_LIMIT, visit};
use crate::value::text::Width;
use crate::value::{Absent, Value};
use crate::variables::Scope;

/// How deep a pointer is looked for within its wrappers.
const WRAPPERS: usize = 10;

/// What a container holds.
#[derive(Clone, Debug)]
pub(crate) enum Container {
    /// Characters in memory.
    Text { address: u64, length: u64, width: Width },
    /// Elements in memory, of the array type of the value.
    Sequence { title: String, elements: Value },
    /// A pointer that owns.
    Pointer { title: String, pointer: Value },
    /// One value in a box.
    Boxed(Value),
}

/// What a value holds, if it is a container that is known.
pub(crate) fn recognize(value: &Value, scope: &dyn Scope) -> Option<Container> {
    let ty = value.ty.strip();
    match ty.language() {
        Language::C => None,
        Language::Cpp => cpp(value, &ty, scope),
        Language::Rust => rust(value, &ty, scope),
    }
}

fn cpp(value: &Value, ty: &Type, scope: &dyn Scope) -> Option<Container> {
    ty.record()?;
    let own = ty.own_name()?;
    let template = own.split_once('<').map_or(&**own, |(template, _)| template);
    if !matches!(
        template,
        "basic_string" | "basic_string_view" | "vector" | "unique_ptr" | "shared_ptr"
    ) || !ty.name().starts_with("std::")
    {
        return None;
    }
    match template {
        "basic_string" => {
            let data = value.member("_M_dataplus", scope)?.member("_M_p", scope)?;
            text(&data, &value.member("_M_string_length", scope)?, scope)
        }
        "basic_string_view" => {
            text(&value.member("_M_str", scope)?, &value.member("_M_len", scope)?, scope)
        }
        "vector" => vector(value, scope),
        "unique_ptr" => {
            let pointer = first_pointer(value, scope, WRAPPERS, &mut { VISITS_LIMIT })?;
            let target = held_name(ty, &pointer)?;
            Some(Container::Pointer { title: format!("std::unique_ptr<{target}>"), pointer })
        }
        _ => shared(value, scope),
    }
}

fn vector(value: &Value, scope: &dyn Scope) -> Option<Container> {
    let parts = value.member("_M_impl", scope)?;
    let start = parts.member("_M_start", scope)?;
    let element = start.ty.target()?;
    let size = element.size().filter(|&size| size > 0)?;
    let address = pointer_of(&start, scope)?;
    let end = pointer_of(&parts.member("_M_finish", scope)?, scope)?;
    let limit = pointer_of(&parts.member("_M_end_of_storage", scope)?, scope)?;
    let count = end.checked_sub(address)? / size;
    let capacity = limit.checked_sub(address)? / size;
    let title = format!("std::vector of length {count}, capacity {capacity}");
    Some(Container::Sequence { title, elements: Value::in_memory(element.array(count), address) })
}

/// What a pointer is said to hold.
fn held_name(ty: &Type, pointer: &Value) -> Option<Arc<str>> {
    Some(ty.parameter("_Tp").or_else(|| pointer.ty.target())?.name())
}

fn shared(value: &Value, scope: &dyn Scope) -> Option<Container> {
    let pointer = value.member("_M_ptr", scope)?;
    let target = held_name(&value.ty.strip(), &pointer)?;
    let counts = value.member("_M_refcount", scope)?.member("_M_pi", scope)?;
    let address = pointer_of(&counts, scope)?;
    let state = if address == 0 {
        "(empty)".to_string()
    } else {
        let block = Value::in_memory(counts.ty.target()?, address);
        let read =
            |name| Some(block.member(name, scope)?.number(scope.machine()).ok()??.to_integer());
        let (used, weak) = (read("_M_use_count")?, read("_M_weak_count")?);
        match used {
            0 => format!("(expired, weak count {weak})"),
            _ => format!("(use count {used}, weak count {})", weak - 1),
        }
    };
    Some(Container::Pointer { title: format!("std::shared_ptr<{target}> {state}"), pointer })
}

fn rust(value: &Value, ty: &Type, scope: &dyn Scope) -> Option<Container> {
    let own = ty.own_name()?;
    if let Kind::Pointer(target) = ty.kind() {
        let is_box = own.starts_with("alloc::boxed::Box<");
        let address = pointer_of(value, scope).filter(|_| is_box)?;
        return Some(Container::Boxed(Value::in_memory(target.follow(), address)));
    }
    let record = ty.record()?;
    let has = |name: &str| record.members.iter().any(|member| member.name.as_deref() == Some(name));
    if has("data_ptr") && has("length") {
        return slice(value, own, scope);
    }
    if &**own == "String" && ty.name().starts_with("alloc::string::") {
        let vector = value.member("vec", scope)?;
        let data =
            first_pointer(&vector.member("buf", scope)?, scope, WRAPPERS, &mut { VISITS_LIMIT })?;
        let length = vector.member("len", scope)?;
        return text(&data, &length, scope);
    }
    if own.starts_with("Vec<") && ty.name().starts_with("alloc::vec::") {
        let data =
            first_pointer(&value.member("buf", scope)?, scope, WRAPPERS, &mut { VISITS_LIMIT })?;
        let address = pointer_of(&data, scope)?;
        let count = count_of(&value.member("len", scope)?, scope)?;
        let elements = Value::in_memory(ty.parameter("T")?.array(count), address);
        return Some(Container::Sequence { title: String::new(), elements });
    }
    None
}

/// A pointer together with a length.
fn slice(value: &Value, name: &str, scope: &dyn Scope) -> Option<Container> {
    let data = value.member("data_ptr", scope)?;
    let length = value.member("length", scope)?;
    if name.ends_with("str") || name.starts_with("alloc::boxed::Box<str") {
        return text(&data, &length, scope);
    }
    let (element, count) = (data.ty.target()?, count_of(&length, scope)?);
    let elements = Value::in_memory(element.array(count), pointer_of(&data, scope)?);
    Some(Container::Sequence { title: String::new(), elements })
}

fn text(data: &Value, length: &Value, scope: &dyn Scope) -> Option<Container> {
    let element = data.ty.target()?.strip();
    let width = Width::of(element.size()?, element.own_name().map_or("", |name| name))?;
    let (address, length) = (pointer_of(data, scope)?, count_of(length, scope)?);
    Some(Container::Text { address, length, width })
}

fn pointer_of(value: &Value, scope: &dyn Scope) -> Option<u64> {
    matches!(value.ty.strip().kind(), Kind::Pointer(_)).then_some(())?;
    Some(value.number(scope.machine()).ok()??.to_integer() as u64)
}

fn count_of(value: &Value, scope: &dyn Scope) -> Option<u64> {
    match value.ty.strip().kind() {
        Kind::Base(Encoding::Unsigned | Encoding::Signed) => {
            u64::try_from(value.number(scope.machine()).ok()??.to_integer()).ok()
        }
        _ => None,
    }
}

/// The first pointer within structures of one member after the other.
fn first_pointer(
    value: &Value,
    scope: &dyn Scope,
    depth: usize,
    left: &mut usize,
) -> Option<Value> {
    let depth = depth.checked_sub(1).filter(|_| visit(left))?;
    if matches!(value.ty.strip().kind(), Kind::Pointer(_)) {
        return Some(value.clone());
    }
    let parts = value.record_parts(scope);
    parts.into_iter().find_map(|part| first_pointer(&part.value?, scope, depth, left))
}

/// Bytes of a text in memory, and whether there is more.
pub(crate) fn text_bytes(
    scope: &dyn Scope,
    address: u64,
    length: u64,
    width: Width,
    limit: usize,
) -> Result<(Vec<u8>, bool), Absent> {
    let shown = length.min(limit as u64);
    let mut bytes = vec![0; shown as usize * width.bytes];
    if !bytes.is_empty() && !scope.machine().read(address, &mut bytes) {
        return Err(Absent::Unreadable(address));
    }
    Ok((bytes, length > shown))
}
