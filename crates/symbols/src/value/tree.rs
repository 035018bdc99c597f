//! Values for programs: names, types, texts and addresses, as a tree that unfolds as far as it is asked to.

use std::sync::Arc;

use crate::types::{Kind, Language};
use crate::value::containers::{self, Container};
use crate::value::parts::Label;
use crate::value::{FormatOptions, Value};
use crate::variables::Scope;

/// A value and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// What it is called within its parent: a member's name, `[3]`, `<Base>`, `*`; empty for anonymous members.
    pub name: String,
    /// Its type.
    pub type_name: Arc<str>,
    /// All of it in a line.
    pub text: String,
    /// Where it is in memory.
    pub address: Option<u64>,
    /// How many bytes it takes.
    pub size: Option<u64>,
    /// The first of its parts, if they were asked for.
    pub children: Vec<Tree>,
    /// How many parts it has, shown or not.
    pub child_count: u64,
}

/// How far a tree unfolds.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// How many levels of children.
    pub levels: usize,
    /// The first child that is wanted, on the first level.
    pub first: u64,
    /// Children on each level.
    pub children: usize,
    /// Nodes all in all.
    pub nodes: usize,
    /// How texts are written.
    pub format: FormatOptions,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        // A line is all that fits beside a node.
        let format = FormatOptions {
            elements: 64,
            depth: 3,
            length: 1024,
            types: false,
            ..FormatOptions::default()
        };
        TreeOptions { levels: 1, first: 0, children: 100, nodes: 10_000, format }
    }
}

impl Value {
    /// The value as a tree.
    pub fn tree(&self, name: &str, scope: &dyn Scope, options: &TreeOptions) -> Tree {
        let mut left = options.nodes;
        self.node(name, scope, options, options.levels, options.first, &mut left)
    }

    /// What it is made of: names and values of a range of its parts. A pointer has one part, what it points to.
    pub fn children(
        &self,
        scope: &dyn Scope,
        raw: bool,
        first: u64,
        limit: usize,
    ) -> Vec<(String, Value)> {
        let container = if raw { None } else { containers::recognize(self, scope) };
        match container {
            Some(Container::Text { .. }) => return Vec::new(),
            Some(Container::Sequence { elements, .. }) => {
                return elements.element_children(scope, first, limit);
            }
            Some(Container::Pointer { pointer, .. }) => {
                return pointer.children(scope, raw, first, limit);
            }
            Some(Container::Boxed(value)) => return one("*", value, first, limit),
            None => {}
        }
        let ty = self.ty.strip();
        match ty.kind() {
            Kind::Array { .. } => self.element_children(scope, first, limit),
            Kind::Record(record)
                if record.variants.is_some() && ty.language() == Language::Rust && !raw =>
            {
                let variant =
                    self.variant(record, scope).and_then(|variant| variant.members.first());
                let Some(held) = variant.and_then(|member| self.member_value(member, scope)) else {
                    return Vec::new();
                };
                held.fields(scope, first, limit)
            }
            Kind::Record(_) => self.fields(scope, first, limit),
            Kind::Pointer(_) | Kind::Reference(..) => match self.pointed(scope) {
                Some(target) => one("*", target, first, limit),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The parts of a record.
    fn fields(&self, scope: &dyn Scope, first: u64, limit: usize) -> Vec<(String, Value)> {
        let parts = self.record_parts(scope);
        let skip = usize::try_from(first).unwrap_or(usize::MAX);
        (parts.into_iter().skip(skip).take(limit))
            .map(|part| {
                let name = match &part.label {
                    Label::Base(name) => format!("<{name}>"),
                    Label::Member(name) => tuple_field(name).to_string(),
                    label => label.text().to_string(),
                };
                let lost = || Value::optimized_out(crate::types::Type::void());
                (name, part.value.unwrap_or_else(lost))
            })
            .collect()
    }

    /// What a pointer points to, if that is memory that can be read.
    fn pointed(&self, scope: &dyn Scope) -> Option<Value> {
        let target = scope.sized(self.ty.target()?);
        if matches!(target.strip().kind(), Kind::Void | Kind::Function(_)) {
            return None;
        }
        let address = self.number(scope.machine()).ok()??.to_integer() as u64;
        scope.machine().read(address, &mut [0]).then(|| Value::in_memory(target, address))
    }

    fn element_children(
        &self,
        scope: &dyn Scope,
        first: u64,
        limit: usize,
    ) -> Vec<(String, Value)> {
        let Some((element, count)) = self.elements() else { return Vec::new() };
        let element = scope.sized(element);
        let size = element.size().unwrap_or(0);
        (first..count)
            .take(limit)
            .map(|index| {
                (format!("[{index}]"), self.part(index.saturating_mul(size), element.clone()))
            })
            .collect()
    }

    /// How many parts it has.
    pub fn child_count(&self, scope: &dyn Scope, raw: bool) -> u64 {
        let container = if raw { None } else { containers::recognize(self, scope) };
        let counted = match &container {
            Some(Container::Sequence { elements, .. }) => elements.elements(),
            _ => self.elements(),
        };
        match counted {
            Some((_, count)) => count,
            None => self.children(scope, raw, 0, 1 << 16).len() as u64,
        }
    }

    fn node(
        &self,
        name: &str,
        scope: &dyn Scope,
        options: &TreeOptions,
        levels: usize,
        first: u64,
        left: &mut usize,
    ) -> Tree {
        *left = left.saturating_sub(1);
        let raw = options.format.raw;
        let mut children = Vec::new();
        if let Some(levels) = levels.checked_sub(1) {
            for (name, value) in self.children(scope, raw, first, options.children) {
                if *left == 0 {
                    break;
                }
                children.push(value.node(&name, scope, options, levels, 0, left));
            }
        }
        Tree {
            name: name.to_string(),
            type_name: self.ty.name(),
            text: self.format(scope, &options.format),
            address: self.address(),
            size: self.ty.size(),
            children,
            child_count: self.child_count(scope, raw),
        }
    }
}

fn one(name: &str, value: Value, first: u64, limit: usize) -> Vec<(String, Value)> {
    if first == 0 && limit > 0 { vec![(name.to_string(), value)] } else { Vec::new() }
}

/// Fields of Rust's tuples are called by number.
fn tuple_field(name: &str) -> &str {
    let number =
        name.strip_prefix("__").filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    number.unwrap_or(name)
}
