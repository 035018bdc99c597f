//! Expressions, and the parts of their values.
//!
//! A value may be large, so that its parts come when they are asked for: `evaluate` tells how many there are, `expand` gives
//! some of them. A part is named by the expression and its path, the numbers of the parts that lead to it.

use retro_query::symbols::{
    Expression, Format, FormatOptions, FrameScope, Tree, TreeOptions, Value,
};
use retro_query::{Error, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::{at_most, invalid};
use super::wire::{Address, ProcessNumber, Time, moment};
use crate::methods::Methods;
use crate::service::{CallContext, MethodError};

/// Parts that are given at once.
const PARTS_LIMIT: u32 = 1000;

/// Parts within each other that a path may lead through.
const PATH_LIMIT: u64 = 64;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods.add("evaluate", "The value of an expression in a frame.", evaluate).add(
        "expand",
        "Some parts of the value of an expression, or of a part of it.",
        expand,
    )
}

/// A value.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ValueNode {
    /// What it is called within what it is a part of: a member's name, `[3]`, `*`; empty for anonymous members.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// All of it in a line, cut off if it is long.
    pub text: String,
    /// Where it is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// How many bytes it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How many parts it has, given or not.
    pub part_count: u64,
    /// Those that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ValueNode>,
}

impl From<Tree> for ValueNode {
    fn from(tree: Tree) -> ValueNode {
        ValueNode {
            name: tree.name,
            type_name: tree.type_name.to_string(),
            text: tree.text,
            address: tree.address.map(Address),
            size: tree.size,
            part_count: tree.child_count,
            parts: tree.children.into_iter().map(ValueNode::from).collect(),
        }
    }
}

/// Parameters of `evaluate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EvaluateParams {
    process: ProcessNumber,
    time: Time,
    /// An expression of C, with what gdb and Rust add to it.
    expression: String,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
    /// The frame of its call stack, 0 for the innermost.
    #[serde(default)]
    frame: u32,
    /// How numbers are written: one of gdb's letters `x z d u o t a c f s`; what suits them unless given.
    format: Option<char>,
    /// Members as they are, no matter what they mean.
    #[serde(default)]
    raw: bool,
}

/// Parameters of `expand`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExpandParams {
    process: ProcessNumber,
    time: Time,
    /// As for `evaluate`.
    expression: String,
    /// Which part: its number, from 0 on, within the value, and so on. Empty for the value itself.
    #[serde(default)]
    path: Vec<u64>,
    /// The first of its parts that is wanted, from 0 on.
    #[serde(default)]
    first: u64,
    /// How many of its parts: 100 unless given, at most 1000.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
    /// The frame of its call stack, 0 for the innermost.
    #[serde(default)]
    frame: u32,
    /// As for `evaluate`.
    format: Option<char>,
    /// As for `evaluate`.
    #[serde(default)]
    raw: bool,
}

fn evaluate(run: &Run, params: EvaluateParams, _: &CallContext) -> Answer<ValueNode> {
    let format = format_options(params.format, params.raw)?;
    let expression = parse(&params.expression)?;
    in_frame(run, params.process, params.time, params.thread, params.frame, |scope| {
        let value = value_of(&expression, scope)?;
        let options = tree_options(&format, 0, 0, 0);
        let mut node = ValueNode::from(value.tree(expression.text(), scope, &options));
        node.text = value.format(scope, &format);
        Ok(node)
    })
}

fn expand(run: &Run, params: ExpandParams, context: &CallContext) -> Answer<ValueNode> {
    at_most("path", params.path.len() as u64, PATH_LIMIT)?;
    let limit = params.limit.unwrap_or(100);
    at_most("limit", limit.into(), PARTS_LIMIT.into())?;
    let format = format_options(params.format, params.raw)?;
    let expression = parse(&params.expression)?;
    in_frame(run, params.process, params.time, params.thread, params.frame, |scope| {
        let mut name = expression.text().to_owned();
        let mut value = value_of(&expression, scope)?;
        for &number in &params.path {
            context.cancel().check()?;
            let part = value.children(scope, params.raw, number, 1).into_iter().next();
            let no_part = || invalid(format!("{name} has no part {number}"));
            (name, value) = part.ok_or_else(no_part)?;
        }
        let options = tree_options(&format, 1, params.first, limit as usize);
        Ok(value.tree(&name, scope, &options).into())
    })
}

/// Looks names up as a frame sees them.
pub(super) fn in_frame<T>(
    run: &Run,
    process: ProcessNumber,
    time: Time,
    thread: Option<u32>,
    frame: u32,
    look: impl FnOnce(&FrameScope<'_>) -> Answer<T>,
) -> Answer<T> {
    at_most("frame", frame.into(), retro_query::FRAMES_LIMIT as u64)?;
    let state = run.state(moment(process, time))?;
    let stack = state.stack(thread, frame as usize + 1)?;
    stack.with_scope(frame as usize, look)?
}

fn parse(text: &str) -> Answer<Expression> {
    Expression::parse(text).map_err(|error| Error::Expression(error.to_string()).into())
}

fn value_of(expression: &Expression, scope: &FrameScope<'_>) -> Answer<Value> {
    let value = expression.evaluate(scope);
    value.map_err(|error| MethodError::from(Error::Expression(error.to_string())))
}

/// How values are written for people.
pub(super) fn format_options(letter: Option<char>, raw: bool) -> Answer<FormatOptions> {
    let format = match letter {
        None => None,
        Some(letter) => match Format::from_letter(letter) {
            Some(format) => Some(format),
            None => return Err(invalid(format!("there is no format {letter:?}"))),
        },
    };
    Ok(FormatOptions { format, raw, ..FormatOptions::default() })
}

/// How far values unfold.
pub(super) fn tree_options(
    format: &FormatOptions,
    levels: usize,
    first: u64,
    children: usize,
) -> TreeOptions {
    let short = TreeOptions::default();
    let format = FormatOptions { format: format.format, raw: format.raw, ..short.format };
    TreeOptions { levels, first, children, format, ..TreeOptions::default() }
}
