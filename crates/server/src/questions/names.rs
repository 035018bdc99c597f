//! Functions, lines and sources.
//!
//! Only files that code of the run comes from are read: knowing the token opens the run, not the file system.

use std::cmp::Reverse;
use std::time::UNIX_EPOCH;

use retro_query::symbols::{FunctionCode, LineCode};
use retro_query::{Moment, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::{at_most, invalid, unknown};
use super::target::{check_name, code_of_line, functions_named};
use super::wire::{Address, AddressRange, ProcessNumber, SourceLine, Time, moment};
use crate::methods::Methods;
use crate::paging::{Page, PageRequest};
use crate::service::CallContext;

/// Lines that are read at once.
const LINES_LIMIT: u32 = 10_000;

/// Names that a search finds.
const SEARCH_LIMIT: u32 = 1000;

/// Types of a file that are looked at for those most similar.
const TYPES_FOUND: usize = 4000;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods
        .add(
            "symbols.functions",
            "The functions of a name, also where they are inlined.",
            functions,
        )
        .add(
            "symbols.search",
            "Functions, or variables, with a text in their names, the most similar first.",
            search,
        )
        .add("symbols.files", "Source files with a text in their names.", files)
        .add("symbols.types", "Types with a text in their names, the most similar first.", types)
        .add("symbols.line", "The code of a source line.", line)
        .add("source.read", "Lines of a source file of the program.", read)
}

/// Parameters of `symbols.functions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FunctionsParams {
    process: ProcessNumber,
    time: Time,
    /// The name alone, or with some of what is around it; `*` stands for anything.
    name: String,
    /// Functions of a page: 100 unless given, at most 10,000.
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// The code of a function.
#[derive(Debug, Serialize, JsonSchema)]
struct FunctionInfo {
    /// Its full name.
    name: String,
    /// The file that has it.
    module: String,
    /// Where it is entered.
    entry: Address,
    /// Where its body begins: a good place to stop at.
    body: Address,
    /// All its code.
    ranges: Vec<AddressRange>,
    /// The line of its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceLine>,
    /// The function that its code stands in, if it is inlined there.
    #[serde(skip_serializing_if = "Option::is_none")]
    inlined_in: Option<String>,
}

impl From<&FunctionCode> for FunctionInfo {
    fn from(function: &FunctionCode) -> FunctionInfo {
        FunctionInfo {
            name: function.name.to_string(),
            module: function.module.path.to_string_lossy().into_owned(),
            entry: Address(function.entry),
            body: Address(function.body),
            ranges: function.ranges.iter().map(AddressRange::from).collect(),
            source: function.source.as_ref().map(SourceLine::from),
            inlined_in: function.inlined_in.as_deref().map(str::to_owned),
        }
    }
}

fn functions(
    run: &Run,
    params: FunctionsParams,
    context: &CallContext,
) -> Answer<Page<FunctionInfo>> {
    let found = functions_named(run, moment(params.process, params.time), &params.name, context)?;
    let found: Vec<FunctionCode> = found.into_iter().map(|(function, _)| function).collect();
    let page = PageRequest { limit: params.limit, cursor: params.cursor };
    some_of(&found, &page, context)
}

/// A page of what is known already.
fn some_of<'a, T, R: From<&'a T>>(
    all: &'a [T],
    page: &PageRequest,
    context: &CallContext,
) -> Answer<Page<R>> {
    let pager = context.pager(page)?;
    let first: usize = pager.start.unwrap_or(0);
    let items: Vec<R> = all.iter().skip(first).take(pager.limit).map(R::from).collect();
    let next = first.saturating_add(items.len());
    Ok(pager.page(items, (next < all.len()).then_some(&next)))
}

/// Parameters of `symbols.search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SymbolSearchParams {
    process: ProcessNumber,
    time: Time,
    /// A part of the name; `*` stands for anything.
    text: String,
    /// Whether global variables are wanted instead of functions.
    #[serde(default)]
    variables: bool,
    /// How many: 20 unless given, at most 1000.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

/// A function or variable that was found.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundFunction {
    /// Its full name.
    name: String,
    /// Where it is.
    address: Address,
    /// The file that has it.
    module: String,
    /// Its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceLine>,
}

fn search(
    run: &Run,
    params: SymbolSearchParams,
    context: &CallContext,
) -> Answer<Vec<FoundFunction>> {
    check_name(&params.text)?;
    let limit = params.limit.unwrap_or(20);
    at_most("limit", limit.into(), SEARCH_LIMIT.into())?;
    let Moment { log, time } = moment(params.process, params.time);
    run.process(log)?.volume_of(time)?;
    let symbols = run.symbols();
    let pattern = format!("*{}*", params.text.trim_matches('*'));
    let mut found = symbols.symbol_named(log, time, &pattern);
    found.retain(|symbol| symbol.is_code != params.variables);
    context.cancel().check()?;
    found.sort_by_cached_key(|symbol| {
        (similarity(&symbol.name, &params.text), symbol.name.clone(), symbol.address)
    });
    let shown = found.into_iter().take(limit as usize).map(|symbol| FoundFunction {
        source: symbols.source_of(log, time, symbol.address).as_ref().map(SourceLine::from),
        name: symbol.name.to_string(),
        address: Address(symbol.address),
        module: symbol.module.path.to_string_lossy().into_owned(),
    });
    Ok(shown.collect())
}

/// How similar a name is to a text in it: what is most similar is least.
fn similarity(name: &str, text: &str) -> impl Ord + use<> {
    let last = name.rsplit("::").next().unwrap_or(name);
    (Reverse((last == text, last.starts_with(text))), name.len())
}

/// Parameters of `symbols.types`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypesParams {
    process: ProcessNumber,
    time: Time,
    /// A part of the name, whatever its case.
    text: String,
    /// How many: 20 unless given, at most 1000.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

/// A type that was found.
#[derive(Debug, Serialize, JsonSchema)]
struct NamedType {
    /// Its full name, as in a declaration.
    name: String,
    /// How many bytes it takes, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// The file that has it.
    module: String,
}

fn types(run: &Run, params: TypesParams, context: &CallContext) -> Answer<Vec<NamedType>> {
    check_name(&params.text)?;
    let limit = params.limit.unwrap_or(20);
    at_most("limit", limit.into(), SEARCH_LIMIT.into())?;
    let Moment { log, time } = moment(params.process, params.time);
    run.process(log)?.volume_of(time)?;
    let mut found = run.symbols().types_with(log, time, &params.text, TYPES_FOUND);
    context.cancel().check()?;
    found.sort_by_cached_key(|found| {
        let own = found.ty.own_name().map_or_else(String::new, ToString::to_string);
        (similarity(&own, &params.text), own)
    });
    let shown = found.into_iter().take(limit as usize).map(|found| NamedType {
        name: found.ty.name().to_string(),
        size: found.ty.size(),
        module: found.module.path.to_string_lossy().into_owned(),
    });
    Ok(shown.collect())
}

/// Parameters of `symbols.files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FilesParams {
    process: ProcessNumber,
    time: Time,
    /// A part of the name, whatever its case.
    text: String,
    /// How many: 20 unless given, at most 1000.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

fn files(run: &Run, params: FilesParams, _: &CallContext) -> Answer<Vec<String>> {
    check_name(&params.text)?;
    let limit = params.limit.unwrap_or(20);
    at_most("limit", limit.into(), SEARCH_LIMIT.into())?;
    let Moment { log, time } = moment(params.process, params.time);
    run.process(log)?.volume_of(time)?;
    Ok(run.symbols().source_files(log, time, &params.text, limit as usize))
}

/// Parameters of `symbols.line`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LineParams {
    process: ProcessNumber,
    time: Time,
    /// The file, by its path or the last parts of it.
    file: String,
    /// The line, from 1 on.
    line: u32,
    /// Entries of a page: 100 unless given, at most 10,000.
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// The code of a line in one function.
#[derive(Debug, Serialize, JsonSchema)]
struct LineInfo {
    /// The line that has the code: the one that was asked for, or the next one that has any.
    source: SourceLine,
    /// Whether it is the one that was asked for.
    is_exact: bool,
    /// The file that has it.
    module: String,
    /// The function that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    /// The first instructions of its statements.
    entries: Vec<Address>,
    /// All its code.
    ranges: Vec<AddressRange>,
}

impl From<&LineCode> for LineInfo {
    fn from(code: &LineCode) -> LineInfo {
        LineInfo {
            source: SourceLine::from(&code.source),
            is_exact: code.is_exact,
            module: code.module.path.to_string_lossy().into_owned(),
            function: code.function.as_deref().map(str::to_owned),
            entries: code.entries.iter().copied().map(Address).collect(),
            ranges: code.ranges.iter().map(AddressRange::from).collect(),
        }
    }
}

fn line(run: &Run, params: LineParams, context: &CallContext) -> Answer<Page<LineInfo>> {
    let moment = moment(params.process, params.time);
    let found = code_of_line(run, moment, &params.file, params.line)?;
    let page = PageRequest { limit: params.limit, cursor: params.cursor };
    some_of(&found, &page, context)
}

/// Parameters of `source.read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceReadParams {
    process: ProcessNumber,
    time: Time,
    /// The file, as the `path` of a source line, or the last parts of it.
    path: String,
    /// The first line that is wanted, from 1 on.
    first: Option<u32>,
    /// How many lines: 1000 unless given, at most 10,000.
    #[schemars(range(min = 1, max = 10_000))]
    count: Option<u32>,
}

/// Lines of a source file.
#[derive(Debug, Serialize, JsonSchema)]
struct SourceText {
    /// The file, as the compiler was told.
    path: String,
    /// Where it is here.
    found: String,
    /// When it was changed last, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<f64>,
    /// Whether that was after the program was built, so that lines may not be those of the program.
    is_newer: bool,
    /// How many lines it has.
    line_count: u32,
    /// The number of the first line given.
    first: u32,
    /// The lines, without their ends.
    lines: Vec<String>,
}

fn read(run: &Run, params: SourceReadParams, _: &CallContext) -> Answer<SourceText> {
    let count = params.count.unwrap_or(1000);
    at_most("count", count.into(), LINES_LIMIT.into())?;
    let first = params.first.unwrap_or(1);
    if first == 0 {
        return Err(invalid("lines are counted from 1 on"));
    }
    let moment = moment(params.process, params.time);
    let code = code_of_line(run, moment, &params.path, 1)?;
    let exact = code.iter().find(|code| *code.source.path == *params.path);
    let no_file = || unknown(format!("no code comes from a file {:?}", params.path));
    let code = exact.or(code.first()).ok_or_else(no_file)?;
    let text = run.sources().read(&code.source.path)?;
    let last = first.saturating_add(count).min(text.line_count().saturating_add(1));
    let since = |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).ok();
    Ok(SourceText {
        path: code.source.path.to_string(),
        found: text.path.to_string_lossy().into_owned(),
        modified: text.modified.and_then(since).map(|since| since.as_secs_f64()),
        is_newer: text.is_newer_than(code.module.modified),
        line_count: text.line_count(),
        first,
        lines: (first..last).filter_map(|line| text.line(line)).map(str::to_owned).collect(),
    })
}
