//! From a type to those that it refers to.

use std::fmt;

use super::{Spot, Type};

/// A reference to another type, followed when it is asked for.
pub struct Link(Target);

enum Target {
    Void,
    /// A type that is there: only types that expressions make have such links.
    Made(Type),
    /// An entry; of an array what is within so many of its dimensions.
    Entry(Spot, usize),
}

impl Link {
    /// To a type that is there.
    pub fn to(ty: &Type) -> Link {
        Link(Target::Made(ty.clone()))
    }

    /// To an entry; without one it is `void`.
    pub(crate) fn at(spot: Option<Spot>) -> Link {
        Link(spot.map_or(Target::Void, |spot| Target::Entry(spot, 0)))
    }

    /// To what is within so many dimensions of an array.
    pub(super) fn within(array: Spot, dimensions: usize) -> Link {
        Link(Target::Entry(array, dimensions))
    }

    /// The type that is meant. What cannot be read is `void`.
    pub fn follow(&self) -> Type {
        match &self.0 {
            Target::Void => Type::void(),
            Target::Made(ty) => ty.clone(),
            Target::Entry(spot, dimension) => Type::at(spot, *dimension).unwrap_or_else(Type::void),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("Link")
    }
}
