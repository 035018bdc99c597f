//! Types as the debug information describes them.
//!
//! Problem: a type is a graph that may have cycles and may fill gigabytes, and what is asked of it is mostly one node.
//!
//! Strategy: a [`Type`] is one node. What it refers to is a [`Link`] that says where an entry is, and is followed when
//! it is asked for. The debug information keeps the nodes that were read, so that none is read twice. Expressions make
//! types of their own (`&x`, `*p@10`, casts), with links to what they are made of.
//!
//! Invariants: making a node reads one entry and its children, never what they refer to; a node that was read owns no
//! other, and not the debug information that keeps it, so that cycles of types are none of owners: a [`Type`] is what
//! holds on to both; every walk over nodes is bounded by [`DEPTH_LIMIT`], so that no debug information makes it hang;
//! sizes are computed without overflow.

pub(crate) mod die;
mod known;
mod link;
mod made;
mod names;
mod read;

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::debug_info::DebugInfo;

pub(crate) use die::Die;
pub use die::Spot;
pub(crate) use known::KnownTypes;
pub use link::Link;
pub(crate) use names::{scoped, within_scopes};
pub(crate) use read::whole_number as constant;

/// How far links are followed.
pub(crate) const DEPTH_LIMIT: usize = 32;

/// How deep members are looked for in records without a name.
pub(crate) const NESTING_LIMIT: usize = 16;

/// Records that are looked into for one member: each may be within several others.
pub(crate) const VISITS_LIMIT: usize = 1 << 12;

/// Counts a visit. False if there were enough.
pub(crate) fn visit(left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    *left > 0
}

/// Which language a type is from: that decides how it is spelled and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// C, and everything that has no rules of its own here.
    #[default]
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

/// A type. Cheap to clone.
#[derive(Clone)]
pub struct Type {
    node: Arc<Node>,
    /// What it was read from.
    info: Option<Arc<DebugInfo>>,
}

/// What a type is, without what it was read from.
pub(crate) struct Node {
    kind: Kind,
    name: Option<Arc<str>>,
    size: Option<u64>,
    language: Language,
    /// Where it was read from.
    spot: Option<Spot>,
    /// The definition, for declarations.
    definition: OnceLock<Option<Spot>>,
    spelled: OnceLock<Arc<str>>,
}

/// What a type is.
#[derive(Debug)]
pub enum Kind {
    /// Nothing.
    Void,
    /// A number, a character, a truth value.
    Base(Encoding),
    /// A pointer.
    Pointer(Link),
    /// A C++ reference, or with `true` one to an rvalue.
    Reference(Link, bool),
    /// A C++ pointer to a member.
    MemberPointer {
        /// The class that it is a member of.
        class: Link,
        /// What the member is.
        target: Link,
    },
    /// An array of one dimension.
    Array {
        /// What it is an array of.
        element: Link,
        /// How many there are.
        count: Count,
        /// Shown between angle brackets by some: a vector register's type.
        is_vector: bool,
    },
    /// A structure, class or union.
    Record(Record),
    /// An enumeration.
    Enumeration(Enumeration),
    /// Another name.
    Typedef(Link),
    /// The same with `const`, `volatile` and the like.
    Qualified(Qualifier, Link),
    /// A function.
    Function(Signature),
}

/// How the bits of a base type are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A number with sign.
    Signed,
    /// A number without.
    Unsigned,
    /// A truth value.
    Boolean,
    /// A character of one byte with sign.
    SignedChar,
    /// A character of one byte without.
    UnsignedChar,
    /// A character of Unicode: `char16_t`, `char32_t`, `wchar_t`, Rust's `char`.
    Unicode,
    /// A binary floating-point number.
    Float,
    /// Two of those.
    ComplexFloat,
    /// Something else, whose bytes can be shown.
    Other,
}

/// What is said about a type in addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qualifier {
    /// `const`
    Const,
    /// `volatile`
    Volatile,
    /// `restrict`
    Restrict,
    /// `_Atomic`
    Atomic,
}

/// How many elements an array has.
#[derive(Clone, Debug)]
pub enum Count {
    /// So many.
    Known(u64),
    /// It does not say, as for a flexible array member.
    Unknown,
    /// It depends on the frame.
    Computed(ComputedCount),
}

/// A count that is known in a frame.
#[derive(Clone)]
pub struct ComputedCount {
    /// The subrange with its bounds.
    pub(crate) subrange: Spot,
}

impl fmt::Debug for ComputedCount {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("ComputedCount")
    }
}

/// Which word a record was declared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// `struct`
    Struct,
    /// `class`
    Class,
    /// `union`
    Union,
}

/// A structure, class or union.
#[derive(Debug)]
pub struct Record {
    /// How it was declared.
    pub kind: RecordKind,
    /// It is only declared here.
    pub is_declaration: bool,
    /// Its bases and members in order.
    pub members: Vec<Member>,
    /// The variants of a Rust enumeration.
    pub variants: Option<Variants>,
    /// The types that it is generic over.
    pub parameters: Vec<(Arc<str>, Link)>,
}

/// A member of a record.
#[derive(Debug)]
pub struct Member {
    /// Its name; bases and anonymous members have none.
    pub name: Option<Arc<str>>,
    /// Its type.
    pub ty: Link,
    /// What kind of member it is.
    pub kind: MemberKind,
    /// The compiler made it.
    pub is_artificial: bool,
}

/// Where a member is.
#[derive(Debug)]
pub enum MemberKind {
    /// So many bytes from the start of the record.
    At(u64),
    /// Bits of it.
    Bits(Bits),
    /// A base class, so many bytes from the start.
    Base(u64),
    /// A virtual base: where it is stands in memory.
    VirtualBase(Spot),
    /// It is the class's own, somewhere else.
    Static(Spot),
}

/// A field of bits, counted from the lowest bit of the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// How many bits from the start.
    pub offset: u64,
    /// How many bits.
    pub size: u64,
}

/// The variants of a Rust enumeration.
#[derive(Debug)]
pub struct Variants {
    /// What tells which variant it is; if there is only one, nothing does.
    pub discriminant: Option<Box<Member>>,
    /// The variants.
    pub variants: Vec<Variant>,
}

/// One variant.
#[derive(Debug)]
pub struct Variant {
    /// The values of the discriminant that mean it; None for the one that is meant by all others.
    pub values: Option<Vec<(u128, u128)>>,
    /// What it holds.
    pub members: Vec<Member>,
}

/// An enumeration.
#[derive(Debug)]
pub struct Enumeration {
    /// Names and their values.
    pub enumerators: Vec<(Arc<str>, i128)>,
    /// Its names are within it.
    pub is_scoped: bool,
    /// Each value is a bit, so that a sum of them makes sense.
    pub is_flags: bool,
    /// Its values have a sign.
    pub is_signed: bool,
    /// It is only declared here.
    pub is_declaration: bool,
}

/// What a function takes and gives.
#[derive(Debug)]
pub struct Signature {
    /// What it returns.
    pub result: Link,
    /// What it takes.
    pub parameters: Vec<Link>,
    /// More may follow.
    pub is_variadic: bool,
    /// Its parameters were declared at all.
    pub is_prototyped: bool,
}

impl fmt::Debug for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "Type({})", self.name())
    }
}

impl Node {
    fn new(
        kind: Kind,
        name: Option<Arc<str>>,
        size: Option<u64>,
        language: Language,
        spot: Option<Spot>,
    ) -> Node {
        let (definition, spelled) = (OnceLock::new(), OnceLock::new());
        Node { kind, name, size, language, spot, definition, spelled }
    }
}

impl Type {
    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.node.kind
    }

    /// The language that it is from.
    pub fn language(&self) -> Language {
        self.node.language
    }

    /// The name that it was given, without what it is within.
    pub fn own_name(&self) -> Option<&Arc<str>> {
        self.node.name.as_ref()
    }

    /// What it was read from.
    fn info(&self) -> Option<&Arc<DebugInfo>> {
        self.info.as_ref()
    }

    pub(crate) fn spot(&self) -> Option<&Spot> {
        self.node.spot.as_ref()
    }

    /// How it is spelled in its language.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(self.node.spelled.get_or_init(|| names::spell(self).into()))
    }

    /// The type behind other names and qualifiers; for what is only declared, the definition if there is one.
    pub fn strip(&self) -> Type {
        let mut ty = self.clone();
        for _ in 0..DEPTH_LIMIT {
            ty = match ty.kind() {
                Kind::Typedef(link) | Kind::Qualified(_, link) => link.follow(),
                _ => break,
            };
        }
        ty.definition()
    }

    /// The definition of a type that is only declared, or the type itself.
    fn definition(&self) -> Type {
        let is_declaration = match self.kind() {
            Kind::Record(record) => record.is_declaration,
            Kind::Enumeration(enumeration) => enumeration.is_declaration,
            _ => false,
        };
        if !is_declaration {
            return self.clone();
        }
        let definition = self.node.definition.get_or_init(|| read::definition_of(self));
        let definition = definition.as_ref().and_then(|spot| Type::at(spot, 0));
        definition.unwrap_or_else(|| self.clone())
    }

    /// How many bytes it takes, if that is known without a frame.
    pub fn size(&self) -> Option<u64> {
        self.size_within(DEPTH_LIMIT)
    }

    fn size_within(&self, depth: usize) -> Option<u64> {
        if let Some(size) = self.node.size {
            return Some(size);
        }
        let depth = depth.checked_sub(1)?;
        match self.kind() {
            Kind::Typedef(link) | Kind::Qualified(_, link) => link.follow().size_within(depth),
            Kind::Array { element, count: Count::Known(count), .. } => {
                element.follow().size_within(depth)?.checked_mul(*count)
            }
            Kind::Array { count: Count::Unknown, .. } => Some(0),
            Kind::Pointer(_) | Kind::Reference(..) => Some(8),
            Kind::MemberPointer { target, .. } => {
                Some(if matches!(target.follow().strip().kind(), Kind::Function(_)) {
                    16
                } else {
                    8
                })
            }
            Kind::Record(_) | Kind::Enumeration(_) => {
                let definition = self.definition();
                if Arc::ptr_eq(&definition.node, &self.node) {
                    None
                } else {
                    definition.size_within(depth)
                }
            }
            Kind::Function(_) | Kind::Void => Some(1),
            _ => None,
        }
    }

    /// What a pointer or a reference points to.
    pub fn target(&self) -> Option<Type> {
        match self.strip().kind() {
            Kind::Pointer(link) | Kind::Reference(link, _) => Some(link.follow()),
            _ => None,
        }
    }

    /// Whether these are the same type by name and shape, seen from far enough.
    pub fn is_like(&self, other: &Type) -> bool {
        let (one, two) = (self.strip(), other.strip());
        one.size() == two.size() && one.name() == two.name()
    }

    /// Whether a record has a member, also within its bases and anonymous members.
    pub(crate) fn has_member(&self, name: &str) -> bool {
        self.has_member_within(name, NESTING_LIMIT, &mut { VISITS_LIMIT })
    }

    fn has_member_within(&self, name: &str, depth: usize, left: &mut usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        let stripped = self.strip();
        let Some(record) = stripped.record() else { return false };
        record.members.iter().any(|member| match &member.name {
            Some(own) => &**own == name,
            None if visit(left) => member.ty.follow().has_member_within(name, depth, left),
            None => false,
        })
    }

    /// The record that it is.
    pub(crate) fn record(&self) -> Option<&Record> {
        match self.kind() {
            Kind::Record(record) => Some(record),
            _ => None,
        }
    }

    /// A type parameter of a record.
    pub(crate) fn parameter(&self, name: &str) -> Option<Type> {
        let parameters = &self.record()?.parameters;
        parameters.iter().find(|(own, _)| &**own == name).map(|(_, link)| link.follow())
    }
}
