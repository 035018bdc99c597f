//! Types that expressions make: `&x`, `*p@10`, casts.
//!
//! No debug information refers to them, so that they may own what they are made of.

use std::sync::Arc;

use super::{
    Count, Encoding, Kind, Language, Link, Member, MemberKind, Node, Qualifier, Record, RecordKind,
    Signature, Type,
};

impl Type {
    fn made(kind: Kind, size: Option<u64>, language: Language) -> Type {
        Type::named(kind, None, size, language)
    }

    fn named(kind: Kind, name: Option<&str>, size: Option<u64>, language: Language) -> Type {
        let node = Node::new(kind, name.map(Arc::from), size, language, None);
        Type { node: Arc::new(node), info: None }
    }

    /// `void`
    pub fn void() -> Type {
        Type::made(Kind::Void, Some(1), Language::C)
    }

    /// A base type of some name.
    pub fn base(name: &str, encoding: Encoding, size: u64) -> Type {
        Type::named(Kind::Base(encoding), Some(name), Some(size), Language::C)
    }

    /// A pointer to this.
    pub fn pointer(&self) -> Type {
        Type::made(Kind::Pointer(Link::to(self)), Some(8), self.language())
    }

    /// A reference to this.
    pub fn reference(&self) -> Type {
        Type::made(Kind::Reference(Link::to(self), false), Some(8), self.language())
    }

    /// So many of this.
    pub fn array(&self, count: u64) -> Type {
        let kind =
            Kind::Array { element: Link::to(self), count: Count::Known(count), is_vector: false };
        Type::made(kind, None, self.language())
    }

    /// This with a qualifier.
    pub fn qualified(&self, qualifier: Qualifier) -> Type {
        Type::made(Kind::Qualified(qualifier, Link::to(self)), self.node.size, self.language())
    }

    /// A function that returns this and of which nothing else is known.
    pub fn function(&self) -> Type {
        let signature = Signature {
            result: Link::to(self),
            parameters: Vec::new(),
            is_variadic: false,
            is_prototyped: false,
        };
        Type::made(Kind::Function(signature), Some(1), self.language())
    }

    /// A union of these, which begin at its start.
    pub fn union_of(name: &str, members: &[(&str, Type)]) -> Type {
        let size = members.iter().filter_map(|(_, ty)| ty.size()).max();
        let members = (members.iter())
            .map(|(name, ty)| Member {
                name: Some(Arc::from(*name)),
                ty: Link::to(ty),
                kind: MemberKind::At(0),
                is_artificial: false,
            })
            .collect();
        let record = Record {
            kind: RecordKind::Union,
            is_declaration: false,
            members,
            variants: None,
            parameters: Vec::new(),
        };
        Type::named(Kind::Record(record), Some(name), size, Language::C)
    }
}
