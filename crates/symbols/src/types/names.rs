//! How types are spelled: as C and C++ declare, and for Rust as the compiler named them.
//!
//! C wraps a type around what is declared: `int (*)[3]` is a pointer to an array. So spelling goes from the outside in
//! and carries the part that stands where a name would be.

use super::{Count, DEPTH_LIMIT, Kind, Language, Qualifier, RecordKind, Signature, Spot, Type};

/// How often what is around an entry is declared elsewhere.
const SPECIFICATIONS: usize = 4;

/// Types that are spelled within one.
const NODES_LIMIT: usize = 256;

/// Bytes of a spelled type.
const SPELLED_LIMIT: usize = 4096;

/// The type as the source would have it.
pub(super) fn spell(ty: &Type) -> String {
    let mut text = Speller { left: NODES_LIMIT }.declare(ty, String::new(), DEPTH_LIMIT);
    if text.len() > SPELLED_LIMIT {
        text.truncate(text.floor_char_boundary(SPELLED_LIMIT));
        text.push_str("...");
    }
    text
}

/// Types refer to types, also to themselves: only so many are written out.
struct Speller {
    left: usize,
}

impl Speller {
    /// The declaration of `inner` as this type.
    fn declare(&mut self, ty: &Type, inner: String, depth: usize) -> String {
        let Some(depth) =
            depth.checked_sub(1).filter(|_| inner.len() <= SPELLED_LIMIT && self.left > 0)
        else {
            return join("...", &inner);
        };
        self.left -= 1;
        if ty.language() == Language::Rust
            && let Some(name) = ty
                .own_name()
                .filter(|_| !matches!(ty.kind(), Kind::Record(_) | Kind::Enumeration(_)))
        {
            return join(name, &inner);
        }
        match ty.kind() {
            Kind::Void => join("void", &inner),
            Kind::Base(_) => {
                join(usual_name(ty.own_name().map_or("<unnamed>", |name| name)), &inner)
            }
            Kind::Pointer(target) => self.declare(&target.follow(), pointer("*", &inner), depth),
            Kind::Reference(target, is_rvalue) => {
                let mark = if *is_rvalue { "&&" } else { "&" };
                self.declare(&target.follow(), pointer(mark, &inner), depth)
            }
            Kind::MemberPointer { class, target } => {
                let mark = format!("{}::*", self.declare(&class.follow(), String::new(), depth));
                self.declare(&target.follow(), pointer(&mark, &inner), depth)
            }
            Kind::Array { element, count, .. } => {
                let count = match count {
                    Count::Known(count) => count.to_string(),
                    Count::Unknown => String::new(),
                    Count::Computed(_) => "variable length".to_string(),
                };
                if ty.language() == Language::Rust {
                    return join(
                        &format!(
                            "[{}; {count}]",
                            self.declare(&element.follow(), String::new(), depth)
                        ),
                        &inner,
                    );
                }
                self.declare(
                    &element.follow(),
                    format!("{}[{count}]", parenthesized(&inner)),
                    depth,
                )
            }
            Kind::Function(signature) => {
                let list = self.parameters(signature, ty.language(), depth);
                let inner = parenthesized(&inner);
                // A function's own type has a space before its list, a pointer's none.
                let space = if inner.is_empty() { " " } else { "" };
                self.declare(&signature.result.follow(), format!("{}{space}({list})", inner), depth)
                    .replace("  (", " (")
            }
            Kind::Qualified(qualifier, target) => {
                self.qualified(*qualifier, &target.follow(), inner, depth)
            }
            Kind::Record(record) => {
                let word = match record.kind {
                    RecordKind::Struct => "struct",
                    RecordKind::Class => "class",
                    RecordKind::Union => "union",
                };
                join(&tagged(ty, word), &inner)
            }
            Kind::Enumeration(_) => join(&tagged(ty, "enum"), &inner),
            Kind::Typedef(target) => match ty.own_name() {
                Some(_) => join(&within_scopes(ty), &inner),
                None => self.declare(&target.follow(), inner, depth),
            },
        }
    }

    fn parameters(&mut self, signature: &Signature, language: Language, depth: usize) -> String {
        let mut list: Vec<String> = (signature.parameters.iter())
            .map(|link| self.declare(&link.follow(), String::new(), depth))
            .collect();
        if signature.is_variadic {
            list.push("...".to_string());
        }
        if list.is_empty() && (signature.is_prototyped || language == Language::Cpp) {
            list.push("void".to_string());
        }
        list.join(", ")
    }

    /// Qualifiers of pointers stand behind the star, those of other types before the name; in their usual order.
    fn qualified(
        &mut self,
        qualifier: Qualifier,
        target: &Type,
        inner: String,
        depth: usize,
    ) -> String {
        let (mut qualifiers, behind) = unqualified(target);
        qualifiers.push(qualifier);
        if let Some(element) = innermost_element(&behind) {
            // Compilers qualify both, and C means the same by either.
            let (known, _) = unqualified(&element);
            qualifiers.retain(|qualifier| !known.contains(qualifier));
            if qualifiers.is_empty() {
                return self.declare(&behind, inner, depth);
            }
        }
        let order = [
            (Qualifier::Const, "const"),
            (Qualifier::Volatile, "volatile"),
            (Qualifier::Restrict, "restrict"),
            (Qualifier::Atomic, "_Atomic"),
        ];
        let words: Vec<&str> = order
            .iter()
            .filter(|(own, _)| qualifiers.contains(own))
            .map(|(_, word)| *word)
            .collect();
        let words = words.join(" ");
        if matches!(
            behind.kind(),
            Kind::Pointer(_) | Kind::Reference(..) | Kind::MemberPointer { .. }
        ) {
            let inner = if inner.is_empty() { String::new() } else { spaced(&inner) };
            self.declare(&behind, format!(" {words}{inner}"), depth)
        } else {
            format!("{words} {}", self.declare(&behind, inner, depth))
        }
    }
}

/// The qualifiers of a type, and what they qualify.
fn unqualified(ty: &Type) -> (Vec<Qualifier>, Type) {
    let mut qualifiers = Vec::new();
    let mut behind = ty.clone();
    for _ in 0..DEPTH_LIMIT {
        let Kind::Qualified(next, link) = behind.kind() else { break };
        qualifiers.push(*next);
        behind = link.follow();
    }
    (qualifiers, behind)
}

/// What an array has in the end, if it is one.
fn innermost_element(ty: &Type) -> Option<Type> {
    let Kind::Array { element, .. } = ty.kind() else { return None };
    let mut found = element.follow();
    for _ in 0..DEPTH_LIMIT {
        let Kind::Array { element, .. } = found.kind() else { break };
        found = element.follow();
    }
    Some(found)
}

/// Compilers write the names of base types out in full.
fn usual_name(name: &str) -> &str {
    match name {
        "short int" => "short",
        "short unsigned int" => "unsigned short",
        "long int" => "long",
        "long unsigned int" => "unsigned long",
        "long long int" => "long long",
        "long long unsigned int" => "unsigned long long",
        name => name,
    }
}

fn spaced(inner: &str) -> String {
    if inner.starts_with([' ', ')', '[']) { inner.to_string() } else { format!(" {inner}") }
}

fn pointer(mark: &str, inner: &str) -> String {
    format!("{mark}{inner}")
}

/// A pointer that is declared as an array or a function stands in parentheses.
fn parenthesized(inner: &str) -> String {
    let points = inner.starts_with(['*', '&']) || inner.contains("::*");
    if points { format!("({inner})") } else { inner.to_string() }
}

fn join(name: &str, inner: &str) -> String {
    let tight = inner.is_empty() || inner.starts_with(' ');
    if tight { format!("{name}{inner}") } else { format!("{name} {inner}") }
}

/// The name of a record or an enumeration; C has the word before it.
fn tagged(ty: &Type, word: &str) -> String {
    match (ty.own_name(), ty.language()) {
        (Some(name), Language::C) => format!("{word} {name}"),
        (Some(_), _) => within_scopes(ty),
        (None, _) => format!("{word} {{...}}"),
    }
}

/// The name with the namespaces and classes around it.
pub(crate) fn within_scopes(ty: &Type) -> String {
    let own = ty.own_name().map_or("{unnamed}", |name| name);
    match ty.spot() {
        Some(spot) if ty.language() != Language::C => scoped(spot, own),
        _ => own.to_string(),
    }
}

/// A name with what its entry is within.
pub(crate) fn scoped(spot: &Spot, own: &str) -> String {
    scoped_within(spot, own, SPECIFICATIONS)
}

fn scoped_within(spot: &Spot, own: &str, depth: usize) -> String {
    let Some(depth) = depth.checked_sub(1) else { return own.to_string() };
    // What completes a declaration may stand outside of what is around that.
    let declared = spot.read().and_then(|die| die.origins().last()).map(|die| die.spot());
    let mut path = String::new();
    for around in declared.as_ref().unwrap_or(spot).ancestors() {
        let is_scope = matches!(
            around.tag(),
            gimli::DW_TAG_namespace
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
        );
        if !is_scope {
            continue;
        }
        let name = around.name();
        let name = name.as_deref().unwrap_or("(anonymous namespace)");
        if around.has(gimli::DW_AT_specification) {
            path = scoped_within(&around.spot(), name, depth);
        } else {
            path.push_str(name);
        }
        path.push_str("::");
    }
    path.push_str(own);
    path
}
