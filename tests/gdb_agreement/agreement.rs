//! Holding what gdb sees against what the query engine says.

use std::collections::{BTreeMap, BTreeSet};

use retro_query::symbols::{FormatOptions, Frame, TreeOptions};
use retro_query::{State, ThreadStack};

use crate::gdb::{Observed, ObservedFrame, ObservedThread, ObservedValue, Trait};
use crate::spelling;

/// Frames of a thread that `observe.py` looks at.
const FRAMES: usize = 100;

/// Differences that a failure shows.
const SHOWN: usize = 40;

/// Registers that functions keep for their callers, by their numbers in DWARF.
const KEPT: [(&str, u16); 7] =
    [("rsp", 7), ("rbp", 6), ("rbx", 3), ("r12", 12), ("r13", 13), ("r14", 14), ("r15", 15)];

/// Differences that are none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Understood {
    /// gdb does not know what a parameter was when its function was called, and is mistaken about that in functions that are
    /// inlined, or whose caller it infers from tail calls; the run knows.
    EntryValue,
    /// gdb takes registers that a called function may change for unchanged, and shows what that function has in them.
    ClobberedRegister,
    /// A function that has called another in its last instruction is no more; gdb infers that it was there.
    TailCall,
    /// Code without call frame information: gdb takes something on the stack for an address of code, or all registers of the
    /// caller for unchanged.
    GuessedCaller,
    /// The same in other words: see [`crate::spelling`].
    Spelling,
    /// Several symbols stand for one address; gdb takes another one.
    Alias,
    /// gdb calculates with the address 0 where a pointer to something that is in registers has none.
    SyntheticPointer,
    /// gdb takes bytes that no piece of a variable covers for a pointer to something that is in registers, or for zeroes.
    Uncovered,
    /// Of two rows at one address the one that begins a statement counts. gdb leaves out rows that repeat the line of the row
    /// before: if that was the one that does not count, its line is forgotten where it goes on, and if it was the one that
    /// does, the other takes its place.
    ForgottenLine,
    /// gdb keeps 16 bits of the line of a call that was inlined.
    LargeLine,
    /// gdb does not read what takes more than 16 megabytes: mostly garbage that looks like a length.
    TooLarge,
    /// rustc says of functions in structures that they are pointers behind the ends of those; gdb shows what is there.
    FunctionItem,
    /// gdb mistakes the variant of an enumeration of Rust that is in several places.
    VariantInPieces,
    /// gdb names the stub of a function without a name by the address of that.
    NamelessStub,
    /// Callers know the values of parameters that the compiler has removed (`DW_OP_GNU_parameter_ref`): nobody asks them yet.
    RemovedParameter,
    /// LLVM has instructions of no line; gdb shows the line before.
    NoLine,
    /// gdb lists variables of blocks that the compiler has removed, some of them twice; none has a value that is not static.
    VanishedVariable,
}

/// What gdb may be mistaken about in a frame.
#[derive(Clone, Copy)]
struct Doubt {
    /// What its parameters were when it was called: it is inlined, or gdb has inferred who called it.
    is_call_inferred: bool,
    /// Its registers, as its callee has no call frame information.
    are_registers_guessed: bool,
}

impl Doubt {
    fn of(frame: &Frame, observed: &ObservedFrame, inferred: &[&ObservedFrame]) -> Doubt {
        // What was called in the last instruction of another function returns to where that would.
        let follows = inferred.iter().any(|tail| tail.callee == Some(observed.pc));
        Doubt {
            is_call_inferred: observed.kind == "inlined" || follows,
            are_registers_guessed: are_registers_guessed(frame),
        }
    }
}

/// Whether no more is known than where a frame is.
fn are_registers_guessed(frame: &Frame) -> bool {
    KEPT[2..].iter().all(|(_, number)| frame.registers.get(*number).is_none())
}

/// What was compared, and what was different.
pub struct Tally {
    name: String,
    moments: usize,
    /// Moments at which gdb fails.
    unanswered: usize,
    frames: usize,
    variables: usize,
    expressions: usize,
    understood: BTreeMap<Understood, usize>,
    differences: Vec<String>,
}

/// What gdb has to say about an enumeration of Rust that is nowhere: it is looked for at address 0.
const UNREADABLE_LOW: &str = "Cannot access memory at address 0x";

/// What there is to say about memory that is not mapped.
const UNREADABLE: &str = "Cannot access memory at address";

/// What a value that the compiler has not kept looks like.
const OPTIMIZED_OUT: &str = "<optimized out>";

impl ObservedValue {
    fn is_optimized_out(&self) -> bool {
        let is_error = |error: &String| error == "value has been optimized out";
        self.text.as_deref() == Some(OPTIMIZED_OUT) || self.error.as_ref().is_some_and(is_error)
    }

    /// Whether a part of it can be behind its end: what is in registers has none.
    fn may_be_beyond(&self) -> bool {
        let is_nowhere = |place: &String| place.trim_end().ends_with("is optimized out.");
        self.in_memory || self.r#where.as_ref().is_some_and(is_nowhere)
    }

    fn is_too_large(&self) -> bool {
        let all = [self.text.as_ref(), self.error.as_ref()];
        all.into_iter().flatten().any(|text| text.contains("more than max-value-size"))
    }

    /// Whether a part of it is so.
    fn is_partly_lost(&self) -> bool {
        let is_so = |text: &String| {
            text.contains(OPTIMIZED_OUT)
                || text == "<error reading variable: Cannot access memory at address 0x0>"
        };
        self.is_optimized_out() || self.text.as_ref().is_some_and(is_so)
    }

    /// Whether it can be of a block that is no more. Of such a block static variables remain.
    fn may_vanish(&self) -> bool {
        let is_static = |place: &String| place.contains("is static storage at address");
        self.is_lost() || self.r#where.as_ref().is_some_and(is_static)
    }

    /// Whether nothing is left of it, or there never was. gdb makes up something for enumerations of Rust.
    fn is_lost(&self) -> bool {
        let is_made_up = self.error.as_deref().and_then(|error| error.strip_prefix(UNREADABLE_LOW));
        self.lost
            || self.is_optimized_out()
            || is_made_up.is_some_and(|address| address.len() <= 2)
            || self.r#trait == Some(Trait::Empty)
    }
}

/// How values look in `observe.py`.
fn as_gdb() -> FormatOptions {
    FormatOptions { raw: true, types: false, ..FormatOptions::default() }
}

impl Tally {
    pub fn new(name: &str) -> Tally {
        Tally {
            name: name.to_string(),
            moments: 0,
            unanswered: 0,
            frames: 0,
            variables: 0,
            expressions: 0,
            understood: BTreeMap::new(),
            differences: Vec::new(),
        }
    }

    /// Nothing is compared: gdb has failed.
    pub fn leave_out(&mut self, complaints: &str) {
        let first = complaints.lines().next().unwrap_or_default();
        println!("{}: gdb fails: {first}", self.name);
        self.unanswered += 1;
    }

    /// Compares a moment.
    pub fn compare(&mut self, state: &State, observed: &Observed) {
        self.moments += 1;
        let time = state.moment().time;
        let threads: Vec<u32> = state.threads().unwrap().iter().map(|info| info.thread).collect();
        let observed_threads: Vec<u32> =
            observed.threads.iter().map(|thread| thread.thread).collect();
        if threads != observed_threads {
            self.differ(format!("time {time}: threads {threads:?}, gdb has {observed_threads:?}"));
        }
        for thread in &observed.threads {
            let stack = state.stack(Some(thread.thread), FRAMES).unwrap();
            self.compare_stack(&format!("time {time}, thread {}", thread.thread), &stack, thread);
        }
    }

    fn compare_stack(&mut self, place: &str, stack: &ThreadStack<'_>, observed: &ObservedThread) {
        let is_cut = observed.frames.len() == FRAMES;
        let (on_stack, inferred): (Vec<&ObservedFrame>, Vec<_>) =
            observed.frames.iter().partition(|frame| frame.kind != "tail call");
        inferred.iter().for_each(|_| self.understand(Understood::TailCall));
        let known = before_wrong_guess(stack.frames(), &on_stack);
        if known < on_stack.len() {
            self.understand(Understood::GuessedCaller);
        } else if stack.frames().len() != on_stack.len() && !is_cut {
            self.differ(format!(
                "{place}: {} frames ({:?}), gdb has {}\n    {}\n    gdb: {}",
                stack.frames().len(),
                stack.end(),
                on_stack.len(),
                names(stack.frames().iter().map(|frame| frame.function.as_deref())),
                names(on_stack.iter().map(|frame| frame.function.as_deref())),
            ));
        }
        let both = stack.frames().iter().zip(on_stack).take(known);
        for (index, (frame, observed)) in both.enumerate() {
            let place = format!(
                "{place}, frame {index} at {:#x} ({})",
                observed.pc,
                observed.function.as_deref().unwrap_or("??")
            );
            self.frames += 1;
            for difference in frame_differences(frame, observed) {
                self.differ(format!("{place}: {difference}"));
            }
            if !frame.is_signal_frame {
                self.compare_names(&place, frame, observed);
            }
            if frame.pc == observed.pc {
                let doubt = Doubt::of(frame, observed, &inferred);
                self.compare_variables(&place, stack, index, observed, doubt);
                self.compare_expressions(&place, stack, index, observed, doubt);
            }
        }
    }

    /// Compares the function and the line of a frame.
    fn compare_names(&mut self, place: &str, frame: &Frame, observed: &ObservedFrame) {
        let is_rust = observed.file.as_deref().is_some_and(|file| file.ends_with(".rs"))
            || observed.function.as_deref().is_some_and(|name| name.starts_with("__rustc["));
        let (ours, theirs) = (frame.function.as_deref(), observed.function.as_deref());
        let in_common = |name: Option<&str>| name.map(|name| spelling::function(name, is_rust));
        match () {
            () if ours == theirs => {}
            () if ours.is_none() && theirs.is_some_and(|name| name.starts_with("*ABS*+0x")) => {
                self.understand(Understood::NamelessStub);
            }
            () if in_common(ours) == in_common(theirs) => self.understand(Understood::Spelling),
            () => self.differ(format!("{place}: the function is {ours:?}, gdb: {theirs:?}")),
        }
        let source = frame.source.as_ref();
        let ours = source.map(|source| (base_name(&source.path), u64::from(source.line)));
        let theirs = observed.file.as_deref().map(|file| (base_name(file), observed.line));
        match (ours, theirs) {
            _ if ours == theirs => {}
            (Some((ours, line)), Some((theirs, short)))
                if ours == theirs && short == line % (1 << 16) =>
            {
                self.understand(Understood::LargeLine);
            }
            (Some((ours, line)), Some((theirs, _)))
                if ours == theirs && observed.lines.contains(&line) =>
            {
                self.understand(Understood::ForgottenLine);
            }
            (None, Some(_)) if is_rust => self.understand(Understood::NoLine),
            _ => {
                let pc = frame.pc;
                self.differ(format!("{place}: the line of {pc:#x} is {ours:?}, gdb: {theirs:?}"));
            }
        }
    }

    fn compare_variables(
        &mut self,
        place: &str,
        stack: &ThreadStack<'_>,
        index: usize,
        observed: &ObservedFrame,
        doubt: Doubt,
    ) {
        let Some(observed) = &observed.variables else { return };
        let ours = stack.locals(index, &as_gdb()).unwrap();
        let mut ours_by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for local in &ours {
            ours_by_name.entry(&local.name).or_default().push(&local.value);
        }
        let mut theirs_by_name: BTreeMap<&str, Vec<&ObservedValue>> = BTreeMap::new();
        for (name, value) in observed {
            theirs_by_name.entry(name).or_default().push(value);
        }
        for (name, ours) in
            ours_by_name.iter().filter(|(name, _)| !theirs_by_name.contains_key(*name))
        {
            match ours.iter().all(|ours| *ours == OPTIMIZED_OUT) {
                true => self.understand(Understood::VanishedVariable),
                false => self.differ(format!("{place}: gdb has no {name}, which is {ours:?}")),
            }
        }
        for (name, mut theirs) in theirs_by_name {
            let mut ours = ours_by_name.remove(name).unwrap_or_default();
            while theirs.len() > ours.len()
                && let Some(vanished) = theirs.iter().rposition(|value| value.may_vanish())
            {
                theirs.remove(vanished);
                self.understand(Understood::VanishedVariable);
            }
            if ours.len() != theirs.len() {
                self.differ(format!("{place}: {name} is {ours:?}, gdb: {theirs:?}"));
            }
            // Of several with one name, those that are the same belong together.
            let is_equal = |ours: &str, theirs: &ObservedValue| {
                theirs.text.as_ref().is_some_and(|text| is_same(ours, text))
            };
            theirs.sort_by_key(|theirs| !ours.iter().any(|ours| is_equal(ours, theirs)));
            for theirs in theirs {
                let same = ours.iter().position(|ours| is_equal(ours, theirs)).unwrap_or(0);
                let Some(ours) = (same < ours.len()).then(|| ours.remove(same)) else { break };
                self.variables += 1;
                self.compare_values(&format!("{place}: {name}"), doubt, Ok(ours), theirs);
            }
        }
    }

    fn compare_expressions(
        &mut self,
        place: &str,
        stack: &ThreadStack<'_>,
        index: usize,
        observed: &ObservedFrame,
        doubt: Doubt,
    ) {
        let locals = stack.locals(index, &as_gdb()).unwrap();
        for (expression, theirs) in &observed.expressions {
            self.expressions += 1;
            let ours = stack.evaluate(index, expression, &as_gdb(), &TreeOptions::default());
            let ours = ours.map(|value| value.text).map_err(|error| error.to_string());
            let place = format!("{place}: {expression}");
            let ours = ours.as_deref().map_err(String::as_str);
            let of = theirs.of.as_deref().unwrap_or_default();
            let visible = locals.iter().filter(|local| local.name == of).count();
            let listed = || observed.variables.iter().flatten().filter(|(name, _)| name == of);
            let is_ambiguous = listed().count() > visible.min(1);
            let is_vanished = is_ambiguous && listed().any(|(_, it)| it.may_vanish());
            if is_vanished && (theirs.is_lost() || visible == 0) {
                // Here it may be another one of that name, further out.
                self.understand(Understood::VanishedVariable);
                continue;
            }
            self.compare_values(&place, doubt, ours, theirs);
        }
    }

    fn compare_values(
        &mut self,
        place: &str,
        doubt: Doubt,
        ours: Result<&str, &str>,
        theirs: &ObservedValue,
    ) {
        let is_optimized_out = ours.is_ok_and(|ours| ours == OPTIMIZED_OUT);
        let is_lost = ours.is_err() || is_optimized_out;
        let is_partly_lost = ours.is_ok_and(|ours| ours.contains(OPTIMIZED_OUT));
        match (ours, &theirs.text, &theirs.error) {
            (Ok(ours), Some(theirs), _) if ours == theirs => {}
            // Each has its own words for what there is not.
            (Err(_), _, Some(_)) => {}
            (Ok(_), _, Some(_)) if is_optimized_out => {}
            (Ok(ours), _, Some(error))
                if ours.contains(UNREADABLE) && error.starts_with(UNREADABLE) => {}
            (Ok(ours), Some(theirs), _) if is_same(ours, theirs) => {
                self.understand(Understood::Spelling);
            }
            (Ok(ours), Some(theirs), _) if is_same_but_names(ours, theirs) => {
                self.understand(Understood::Alias);
            }
            (Ok(ours), Some(theirs), _)
                if spelling::value(ours) == spelling::value_without_uncovered(theirs) =>
            {
                self.understand(Understood::Uncovered);
            }
            (Err(ours), _, _) if ours.ends_with("synthetic pointer") => {
                self.understand(Understood::SyntheticPointer);
            }
            (Err(_), _, _) if theirs.is_optimized_out() => {}
            _ if is_optimized_out && theirs.lost => self.understand(Understood::Spelling),
            _ if theirs.r#trait == Some(Trait::Entry)
                && (theirs.is_partly_lost() || doubt.is_call_inferred) =>
            {
                self.understand(Understood::EntryValue);
            }
            _ if theirs.r#trait == Some(Trait::Removed) && is_lost => {
                self.understand(Understood::RemovedParameter);
            }
            _ if theirs.r#trait == Some(Trait::Empty) && (is_lost || theirs.error.is_some()) => {
                self.understand(Understood::Spelling);
            }
            _ if theirs.r#trait == Some(Trait::Clobbered) && (is_lost || is_partly_lost) => {
                self.understand(Understood::ClobberedRegister);
            }
            _ if doubt.are_registers_guessed && is_lost => {
                self.understand(Understood::GuessedCaller);
            }
            _ if theirs.is_too_large() => self.understand(Understood::TooLarge),
            (Ok(ours), Some(text), _)
                if theirs.may_be_beyond() && spelling::is_same_but_functions(ours, text) =>
            {
                self.understand(Understood::FunctionItem);
            }
            _ if theirs.r#trait == Some(Trait::Variant) => {
                self.understand(Understood::VariantInPieces);
            }
            _ if theirs.r#trait == Some(Trait::Uncovered) && (is_lost || is_partly_lost) => {
                self.understand(Understood::Uncovered);
            }
            (ours, text, error) => {
                let ours = spelling::value_without_names(ours.unwrap_or_else(|error| error));
                let found = text.as_ref().or(error.as_ref()).map_or("", String::as_str);
                let found = spelling::value_without_names(found);
                let common =
                    ours.chars().zip(found.chars()).take_while(|(one, other)| one == other);
                let same = common.count().saturating_sub(60);
                let shown = |text: &str| text.chars().skip(same).take(240).collect::<String>();
                let hard = (theirs.r#trait, theirs.r#where.as_deref().unwrap_or_default());
                let (ours, found) = (shown(&ours), shown(&found));
                self.differ(format!(
                    "{place} ({hard:?}) is, from {same} on, {ours}\n    gdb: {found}"
                ));
            }
        }
    }

    fn understand(&mut self, difference: Understood) {
        *self.understood.entry(difference).or_default() += 1;
    }

    fn differ(&mut self, difference: String) {
        self.differences.push(difference);
    }

    /// Fails the test if more was different than moments that nobody has seen before can bring to light: recordings differ from
    /// run to run, and about one of a thousand moments shows something that nobody has explained yet.
    #[track_caller]
    pub fn conclude(self) {
        let Tally { name, moments, unanswered, frames, variables, expressions, .. } = self;
        let Tally { understood, differences, .. } = self;
        println!(
            "{name}: {moments} moments (and {unanswered} without an answer), {frames} frames, {variables} variables, \
             {expressions} expressions; {} differences; understood: {understood:?}",
            differences.len()
        );
        let compared = frames + variables + expressions;
        // What is behind a difference shows in several frames and variables of its moment.
        let moment_of = |difference: &String| difference.split(',').next().map(str::to_owned);
        let unexplained = differences.iter().map(moment_of).collect::<BTreeSet<_>>().len();
        differences.iter().for_each(|difference| println!("  {difference}"));
        assert!(
            unexplained <= 2 + compared / 20_000,
            "{name}: {} differences:\n  {}",
            differences.len(),
            differences[..differences.len().min(SHOWN)].join("\n  ")
        );
        assert!(moments > 0 && frames >= moments, "gdb saw no stacks");
        assert!(unanswered <= 2 + moments / 10, "gdb fails at {unanswered} moments");
    }
}

/// Whether values are the same in other words.
fn is_same(ours: &str, theirs: &str) -> bool {
    spelling::value(ours) == spelling::value(theirs)
        || spelling::before_incomplete_sequence(theirs).is_some_and(|start| ours.starts_with(start))
        || ours.contains("{data_ptr: ")
            && spelling::value_without_slices(ours) == spelling::value_without_slices(theirs)
        || ours.contains("{data_ptr: <optimized out>")
            && spelling::value_without_slices(ours) == spelling::value_without_lost_slices(theirs)
}

/// How many frames there are before gdb goes from code without debug information to what is no code, where we find a function.
fn before_wrong_guess(frames: &[Frame], observed: &[&ObservedFrame]) -> usize {
    let is_wrong = |pair: &[&ObservedFrame], frame: &Frame| {
        pair[0].file.is_none()
            && pair[1].function.is_none()
            && frame.function.is_some()
            && frame.pc != pair[1].pc
    };
    let mut callers = observed.windows(2).zip(frames.iter().skip(1));
    let wrong = callers.position(|(pair, frame)| is_wrong(pair, frame));
    wrong.map_or(observed.len(), |nameless| nameless + 1)
}

/// Whether they are the same but for which of several symbols stands for an address.
fn is_same_but_names(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) =
        (spelling::value_without_names(ours), spelling::value_without_names(theirs));
    let is_prefix = |start: &str| ours.starts_with(start);
    ours == theirs || spelling::before_incomplete_sequence(&theirs).is_some_and(is_prefix)
}

fn names<'a>(names: impl Iterator<Item = Option<&'a str>>) -> String {
    names.map(|name| name.unwrap_or("??")).collect::<Vec<_>>().join(" < ")
}

fn frame_differences(frame: &Frame, observed: &ObservedFrame) -> Vec<String> {
    let mut found = Vec::new();
    let kind = match () {
        () if frame.is_signal_frame => "signal",
        () if frame.is_inlined => "inlined",
        () => "normal",
    };
    if kind != observed.kind {
        found.push(format!("it is {kind}, gdb: {}", observed.kind));
    }
    if frame.pc != observed.pc {
        found.push(format!("it is at {:#x}, gdb: {:#x}", frame.pc, observed.pc));
        return found;
    }
    // Where callers are guessed, we know no more than where they are; gdb takes all registers for unchanged.
    let known = if are_registers_guessed(frame) { &KEPT[..1] } else { &KEPT[..] };
    for &(name, number) in known {
        let (ours, theirs) =
            (frame.registers.get(number), observed.registers.get(name).copied().flatten());
        if ours != theirs {
            found.push(format!("{name} is {ours:x?}, gdb: {theirs:x?}"));
        }
    }
    found
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
