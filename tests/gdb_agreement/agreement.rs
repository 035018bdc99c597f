//! Holding what gdb sees against what the query engine says.

use std::collections::BTreeMap;

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
    /// gdb does not know what a parameter was when its function was called, and in functions that are inlined it is mistaken
    /// about that; the run knows.
    EntryValue,
    /// gdb takes registers that a called function may change for unchanged, and shows what that function has in them.
    ClobberedRegister,
    /// A function that has called another in its last instruction is no more; gdb infers that it was there.
    TailCall,
    /// The same in other words: see [`crate::spelling`].
    Spelling,
    /// gdb calculates with the address 0 where a pointer to something that is in registers has none.
    SyntheticPointer,
    /// gdb keeps 16 bits of the line of a call that was inlined.
    LargeLine,
    /// Callers know the values of parameters that the compiler has removed (`DW_OP_GNU_parameter_ref`): nobody asks them yet.
    RemovedParameter,
    /// LLVM has instructions of no line; gdb shows the line before.
    NoLine,
    /// gdb lists variables of blocks that the compiler has removed, some of them twice; none has a value.
    VanishedVariable,
}

/// What was compared, and what was different.
pub struct Tally {
    name: String,
    moments: usize,
    frames: usize,
    variables: usize,
    expressions: usize,
    understood: BTreeMap<Understood, usize>,
    differences: Vec<String>,
}

/// What there is to say about memory that is not mapped.
const UNREADABLE: &str = "Cannot access memory at address";

/// What a value that the compiler has not kept looks like.
const OPTIMIZED_OUT: &str = "<optimized out>";

impl ObservedValue {
    fn is_optimized_out(&self) -> bool {
        let is_error = |error: &String| error == "value has been optimized out";
        self.text.as_deref() == Some(OPTIMIZED_OUT) || self.error.as_ref().is_some_and(is_error)
    }

    /// Whether a part of it is so.
    fn is_partly_lost(&self) -> bool {
        self.is_optimized_out()
            || self.text.as_ref().is_some_and(|text| text.contains(OPTIMIZED_OUT))
    }

    /// Whether nothing is left of it, or there never was.
    fn is_lost(&self) -> bool {
        let is_spelled_out = |text: &String| {
            text.ends_with("value has been optimized out>")
                || spelling::value(text) == OPTIMIZED_OUT
        };
        let has_nothing = self.text.as_ref().is_some_and(is_spelled_out);
        self.is_optimized_out() || has_nothing || self.r#trait == Some(Trait::Empty)
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
            frames: 0,
            variables: 0,
            expressions: 0,
            understood: BTreeMap::new(),
            differences: Vec::new(),
        }
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
        if stack.frames().len() != on_stack.len() && !is_cut {
            self.differ(format!(
                "{place}: {} frames ({:?}), gdb has {}\n    {}\n    gdb: {}",
                stack.frames().len(),
                stack.end(),
                on_stack.len(),
                names(stack.frames().iter().map(|frame| frame.function.as_deref())),
                names(on_stack.iter().map(|frame| frame.function.as_deref())),
            ));
        }
        for (index, (frame, observed)) in stack.frames().iter().zip(on_stack).enumerate() {
            let place = format!(
                "{place}, frame {index} ({})",
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
                self.compare_variables(&place, stack, index, observed);
                self.compare_expressions(&place, stack, index, observed);
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
    ) {
        let is_inlined = observed.kind == "inlined";
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
                && let Some(vanished) = theirs.iter().rposition(|value| value.is_lost())
            {
                theirs.remove(vanished);
                self.understand(Understood::VanishedVariable);
            }
            if ours.len() != theirs.len() {
                self.differ(format!("{place}: {name} is {ours:?}, gdb: {theirs:?}"));
            }
            ours.sort_unstable();
            theirs.sort_by(|one, other| one.text.cmp(&other.text));
            for (ours, theirs) in ours.iter().zip(theirs) {
                self.variables += 1;
                self.compare_values(&format!("{place}: {name}"), is_inlined, Ok(ours), theirs);
            }
        }
    }

    fn compare_expressions(
        &mut self,
        place: &str,
        stack: &ThreadStack<'_>,
        index: usize,
        observed: &ObservedFrame,
    ) {
        let locals = stack.locals(index, &as_gdb()).unwrap();
        for (expression, theirs) in &observed.expressions {
            self.expressions += 1;
            let ours = stack.evaluate(index, expression, &as_gdb(), &TreeOptions::default());
            let ours = ours.map(|value| value.text).map_err(|error| error.to_string());
            let place = format!("{place}: {expression}");
            let ours = ours.as_deref().map_err(String::as_str);
            let is_visible = |name: &String| locals.iter().any(|local| local.name == *name);
            if theirs.is_optimized_out() && !theirs.of.as_ref().is_some_and(is_visible) {
                // Here it may be another one of that name, further out.
                self.understand(Understood::VanishedVariable);
                continue;
            }
            self.compare_values(&place, observed.kind == "inlined", ours, theirs);
        }
    }

    fn compare_values(
        &mut self,
        place: &str,
        is_inlined: bool,
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
            (Err(ours), _, _) if ours.ends_with("synthetic pointer") => {
                self.understand(Understood::SyntheticPointer);
            }
            (Err(_), _, _) if theirs.is_optimized_out() => {}
            _ if theirs.r#trait == Some(Trait::Entry)
                && (theirs.is_partly_lost() || is_inlined) =>
            {
                self.understand(Understood::EntryValue);
            }
            _ if theirs.r#trait == Some(Trait::Removed) && is_lost => {
                self.understand(Understood::RemovedParameter);
            }
            _ if theirs.r#trait == Some(Trait::Empty) && is_lost => {
                self.understand(Understood::Spelling);
            }
            _ if theirs.r#trait == Some(Trait::Clobbered) && (is_lost || is_partly_lost) => {
                self.understand(Understood::ClobberedRegister);
            }
            (ours, text, error) => {
                let ours = ours.unwrap_or_else(|error| error);
                let found = text.as_ref().or(error.as_ref()).map_or("", String::as_str);
                let common =
                    ours.chars().zip(found.chars()).take_while(|(one, other)| one == other);
                let same = common.count().saturating_sub(60);
                let shown = |text: &str| text.chars().skip(same).take(240).collect::<String>();
                let hard = theirs.r#trait;
                let (ours, found) = (shown(ours), shown(found));
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

    /// Fails the test if something was different.
    #[track_caller]
    pub fn conclude(self) {
        let Tally { name, moments, frames, variables, expressions, understood, differences } = self;
        println!(
            "{name}: {moments} moments, {frames} frames, {variables} variables, {expressions} expressions; \
             {} differences; understood: {understood:?}",
            differences.len()
        );
        assert!(frames >= moments, "gdb saw no stacks");
        assert!(
            differences.is_empty(),
            "{name}: {} differences:\n  {}",
            differences.len(),
            differences[..differences.len().min(SHOWN)].join("\n  ")
        );
    }
}

/// Whether values are the same in other words.
fn is_same(ours: &str, theirs: &str) -> bool {
    spelling::value(ours) == spelling::value(theirs)
        || spelling::before_incomplete_sequence(theirs).is_some_and(|start| ours.starts_with(start))
        || ours.contains("{data_ptr: ")
            && spelling::value_without_slices(ours) == spelling::value_without_slices(theirs)
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
    for (name, number) in KEPT {
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
