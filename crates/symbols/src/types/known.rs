//! The types that were read, kept so that none is read twice.
//!
//! Types refer to each other in every way, and each is asked for many times while a value is shown. Reading one means
//! to read its entry and all entries within.
//!
//! Invariant: memory is bounded, whatever is read: when there is too much, all is forgotten, and read again if it is
//! asked for. Nobody can tell, because nodes are never compared.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::{Die, Kind, Node, Spot, Type};
use crate::lock;

/// Nodes and what they list that are kept, about 100 bytes each.
const WEIGHT_LIMIT: usize = 1 << 18;

/// The number of a unit, the offset of an entry, the dimension of an array.
type Key = (u32, usize, usize);

/// The types of a file's debug information that were read.
#[derive(Default)]
pub(crate) struct KnownTypes {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    nodes: HashMap<Key, Arc<Node>>,
    weight: usize,
}

impl fmt::Debug for KnownTypes {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("KnownTypes")
    }
}

impl KnownTypes {
    fn get(&self, key: Key) -> Option<Arc<Node>> {
        lock(&self.kept).nodes.get(&key).cloned()
    }

    /// Keeps a node that was read. If another was faster, its node is everybody's.
    fn keep(&self, key: Key, node: Node) -> Arc<Node> {
        let weight = node.weight();
        let mut kept = lock(&self.kept);
        if kept.weight + weight > WEIGHT_LIMIT {
            *kept = Kept::default();
        }
        kept.weight += weight;
        Arc::clone(kept.nodes.entry(key).or_insert_with(|| Arc::new(node)))
    }
}

impl Type {
    /// The type that an entry is; what is none is `void`.
    pub(crate) fn of(die: &Die) -> Type {
        Type::dimension_of(die, 0)
    }

    /// The type at a spot; of an array what is within so many of its dimensions.
    pub(super) fn at(spot: &Spot, dimension: usize) -> Option<Type> {
        let info = spot.info()?;
        match info.types().get(key(spot, dimension)) {
            Some(node) => Some(Type { node, info: Some(info) }),
            None => Some(Type::dimension_of(&spot.read()?, dimension)),
        }
    }

    fn dimension_of(die: &Die, dimension: usize) -> Type {
        let types = die.info.types();
        let key = key(&die.spot(), dimension);
        let node = types.get(key).unwrap_or_else(|| types.keep(key, Node::read(die, dimension)));
        Type { node, info: Some(Arc::clone(&die.info)) }
    }
}

fn key(spot: &Spot, dimension: usize) -> Key {
    let (unit, offset) = spot.key();
    (unit, offset, dimension)
}

impl Node {
    fn weight(&self) -> usize {
        let listed = match &self.kind {
            Kind::Record(record) => {
                let variants = record.variants.iter().flat_map(|all| &all.variants);
                let in_variants: usize = variants.map(|variant| 1 + variant.members.len()).sum();
                record.members.len() + record.parameters.len() + in_variants
            }
            Kind::Enumeration(enumeration) => enumeration.enumerators.len(),
            Kind::Function(signature) => signature.parameters.len(),
            _ => 0,
        };
        1 + listed
    }
}
