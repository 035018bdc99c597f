//! Call stacks and the variables of their frames.

use retro_query::symbols::{
    FormatOptions, FrameScope, Global, Scope, StackEnd, Variable, VariableKind,
};
use retro_query::{Moment, Named, Run, ThreadStack};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::at_most;
use super::value::{ValueNode, format_options, in_frame, tree_options};
use super::wire::{Address, ProcessNumber, SourceLine, Time, moment};
use crate::methods::Methods;
use crate::paging::{Page, PageRequest};
use crate::service::CallContext;

/// Frames of an answer unless given.
const FRAMES: u32 = 100;

/// Variables of a frame; hostile debug information has more.
const VARIABLES_LIMIT: usize = 1000;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods
        .add("stack", "The call stack of a thread at a moment, innermost frame first.", stack)
        .add("locals", "The parameters and local variables that a frame sees.", locals)
        .add(
            "globals",
            "The global variables of the source file that a frame's function was compiled from.",
            globals,
        )
}

/// Parameters of `stack`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StackParams {
    process: ProcessNumber,
    time: Time,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
    /// The first frame that is wanted, 0 for the innermost.
    #[serde(default)]
    first: u32,
    /// How many frames: 100 unless given, at most 10,000.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u32>,
    /// Which arguments are wanted; those of now unless given.
    #[serde(default)]
    arguments: WantedArguments,
    /// Whether local variables are wanted.
    #[serde(default)]
    locals: bool,
}

/// Which arguments of a function are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WantedArguments {
    /// As the parameters are now; some may have changed or be lost.
    #[default]
    Now,
    /// As they were at the call. Takes a look at that moment for each frame.
    AtCall,
    /// None.
    None,
}

/// The call stack of a thread.
#[derive(Debug, Serialize, JsonSchema)]
struct Stack {
    /// The thread.
    thread: u32,
    /// Its frames.
    frames: Vec<StackFrame>,
    /// Why there are no more.
    end: StackEndKind,
}

/// Why a call stack has no more frames.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StackEndKind {
    /// The last one was not called by any.
    Outermost,
    /// No more were asked for.
    Cut,
    /// What is on the stack cannot be right.
    Corrupt,
    /// Nothing says where the next one is.
    Unknown,
}

/// A function that has not returned.
#[derive(Debug, Serialize, JsonSchema)]
struct StackFrame {
    /// 0 for the innermost.
    frame: usize,
    /// Where it goes on.
    pc: Address,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    /// The file with its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    /// The source line.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceLine>,
    /// Where its caller's part of the stack begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    frame_address: Option<Address>,
    /// Its code stands in that of the next frame.
    is_inlined: bool,
    /// The kernel put it there to call the handler of a signal.
    is_signal_frame: bool,
    /// It was found without a table that says where it is.
    is_guessed: bool,
    /// When it was called: the moment in front of its first instruction. With `arguments: "at_call"` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    called: Option<Time>,
    /// The arguments, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Vec<Argument>>,
    /// Local variables, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    locals: Option<Vec<Local>>,
}

/// An argument of a function.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Argument {
    /// The parameter's name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its value.
    pub value: String,
}

impl From<Named> for Argument {
    fn from(named: Named) -> Argument {
        Argument { name: named.name, type_name: named.type_name, value: named.value }
    }
}

/// A variable of a frame.
#[derive(Debug, Serialize, JsonSchema)]
struct Local {
    /// Whether it is a parameter.
    is_parameter: bool,
    /// Whether one further in has the same name, so that the name does not mean this one.
    is_shadowed: bool,
    /// The line that it was declared in.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// Its value; `expand` gives its parts.
    value: ValueNode,
}

impl Local {
    fn of(variable: &Variable, scope: &FrameScope<'_>, format: &FormatOptions) -> Local {
        let options = tree_options(format, 0, 0, 0);
        Local {
            is_parameter: variable.kind == VariableKind::Parameter,
            is_shadowed: variable.is_shadowed,
            line: variable.line,
            value: variable.value.tree(&variable.name, scope, &options).into(),
        }
    }

    fn all(scope: &FrameScope<'_>, format: &FormatOptions) -> Vec<Local> {
        let variables = scope.locals().into_iter().take(VARIABLES_LIMIT);
        variables.map(|variable| Local::of(&variable, scope, format)).collect()
    }
}

/// How arguments are written where many of them are.
pub(super) fn argument_format() -> FormatOptions {
    tree_options(&FormatOptions::default(), 0, 0, 0).format
}

fn stack(run: &Run, params: StackParams, context: &CallContext) -> Answer<Stack> {
    let highest = retro_query::FRAMES_LIMIT as u64;
    let limit = params.limit.unwrap_or(FRAMES);
    at_most("first", params.first.into(), highest)?;
    at_most("limit", limit.into(), highest)?;
    let state = run.state(moment(params.process, params.time))?;
    let wanted = (params.first as usize).saturating_add(limit as usize);
    let stack = state.stack(params.thread, wanted)?;
    let given = wanted.min(stack.frames().len());
    let given = given.min(params.first as usize)..given;
    let calls = match params.arguments {
        WantedArguments::AtCall => stack.entries(given.clone(), context.cancel().flag())?,
        _ => vec![None; given.len()],
    };
    let mut described = 0;
    let frames = ThreadStack::by_calls(given, calls, |(index, called)| -> Answer<StackFrame> {
        context.cancel().check()?;
        context.progress(described, Some(limit.into()));
        described += 1;
        describe(&stack, index, called, &params)
    })?;
    let end = match stack.end() {
        StackEnd::Outermost => StackEndKind::Outermost,
        StackEnd::Cut => StackEndKind::Cut,
        StackEnd::Corrupt => StackEndKind::Corrupt,
        StackEnd::Unknown => StackEndKind::Unknown,
    };
    Ok(Stack { thread: stack.thread, frames, end })
}

fn describe(
    stack: &ThreadStack<'_>,
    index: usize,
    called: Option<Moment>,
    params: &StackParams,
) -> Answer<StackFrame> {
    let format = argument_format();
    let frame = &stack.frames()[index];
    let arguments = match params.arguments {
        WantedArguments::None => None,
        WantedArguments::AtCall => Some(stack.arguments_since(index, called, &format)?),
        WantedArguments::Now => {
            let mut locals = stack.locals(index, &format)?;
            locals.retain(|local| local.is_parameter);
            Some(locals)
        }
    };
    let locals = match params.locals {
        true => Some(stack.with_scope(index, |scope| Local::all(scope, &format))?),
        false => None,
    };
    Ok(StackFrame {
        frame: index,
        pc: Address(frame.pc),
        function: frame.function.as_deref().map(str::to_owned),
        module: frame.module.as_ref().map(|module| module.path.to_string_lossy().into_owned()),
        source: frame.source.as_ref().map(SourceLine::from),
        frame_address: frame.cfa.map(Address),
        is_inlined: frame.is_inlined,
        is_signal_frame: frame.is_signal_frame,
        is_guessed: frame.is_guessed,
        called: called.map(|moment| Time(moment.time)),
        arguments: arguments.map(|all| all.into_iter().map(Argument::from).collect()),
        locals,
    })
}

/// Parameters of `locals`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LocalsParams {
    process: ProcessNumber,
    time: Time,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
    /// The frame of its call stack, 0 for the innermost.
    #[serde(default)]
    frame: u32,
    /// How numbers are written, as for `evaluate`.
    format: Option<char>,
    /// Members as they are, no matter what they mean.
    #[serde(default)]
    raw: bool,
}

fn locals(run: &Run, params: LocalsParams, _: &CallContext) -> Answer<Vec<Local>> {
    let format = format_options(params.format, params.raw)?;
    in_frame(run, params.process, params.time, params.thread, params.frame, |scope| {
        Ok(Local::all(scope, &format))
    })
}

/// Parameters of `globals`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GlobalsParams {
    process: ProcessNumber,
    time: Time,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
    /// The frame of its call stack, 0 for the innermost.
    #[serde(default)]
    frame: u32,
    /// How numbers are written, as for `evaluate`.
    format: Option<char>,
    /// Members as they are, no matter what they mean.
    #[serde(default)]
    raw: bool,
    /// Variables of a page: 100 unless given, at most 10,000.
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// A global variable.
#[derive(Debug, Serialize, JsonSchema)]
struct GlobalVariable {
    /// The line that it was declared in.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// Its value, under its full name; `expand` gives its parts.
    value: ValueNode,
}

impl GlobalVariable {
    fn of(global: &Global, scope: &FrameScope<'_>, format: &FormatOptions) -> Option<Self> {
        let value = scope.value_at(&global.spot)?;
        let value = value.tree(&global.name, scope, &tree_options(format, 0, 0, 0)).into();
        Some(GlobalVariable { line: global.line, value })
    }
}

fn globals(
    run: &Run,
    params: GlobalsParams,
    context: &CallContext,
) -> Answer<Page<GlobalVariable>> {
    let format = format_options(params.format, params.raw)?;
    let pager = context.pager(&PageRequest { limit: params.limit, cursor: params.cursor })?;
    let first: usize = pager.start.unwrap_or(0);
    in_frame(run, params.process, params.time, params.thread, params.frame, |scope| {
        let mut globals = scope.globals().skip(first).peekable();
        let mut items = Vec::new();
        let mut next = first;
        while next - first < pager.limit
            && let Some(global) = globals.next()
        {
            context.cancel().check()?;
            items.extend(GlobalVariable::of(&global, scope, &format));
            next += 1;
        }
        Ok(pager.page(items, globals.peek().is_some().then_some(&next)))
    })
}
