//! What the index can be asked, so that few moments have to be looked at.
//!
//! A plan tells what is true of every moment that fits, as far as it can be told without looking: where its
//! instruction is, on which thread, when, and what is on the call stack. It never leaves out a moment that fits; what it
//! lets through still has to be tried with [`Context::holds`].
//!
//! What holds for one of several joined by `and` holds for all of them; for `or` it has to hold for each. Nothing is
//! told of what is negated.

use std::ops::RangeInclusive;

use super::{
    Callee, Clock, Comparison, Condition, Context, Cost, Event, EventKind, Location, Operand,
    Pattern, Place, Search, TimePoint, Word,
};

/// Where to look for the moments of a [`Search`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to look up.
    pub occurrences: Occurrences,
    /// The instruction is at one of these places; `None` if it may be anywhere.
    pub within: Option<Vec<Place>>,
    /// It is executed by one of these threads; `None` if by any.
    pub threads: Option<Vec<u32>>,
    /// All of these hold for the time.
    pub times: Vec<TimeBound>,
    /// For each of these, a function is on the call stack that matches it.
    pub on_stack: Vec<Pattern>,
    /// What it takes to look at a moment that was found; `None` if there is nothing to look at.
    pub cost: Option<Cost>,
}

/// What to look up in the index, from the narrowest on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// Calls of these functions.
    Calls(Vec<Callee>),
    /// Returns from these functions.
    Returns(Vec<Callee>),
    /// Instructions at these places.
    Executions(Vec<Place>),
    /// Writes to this memory.
    Writes(Location),
    /// Reads of this memory.
    Reads(Location),
    /// The list of such events that the index has.
    Listed(EventKind),
    /// There is nothing to go by: every event of this kind, or as many as the bounds of a [`Plan`] let through.
    Every(EventKind),
}

/// A condition on the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBound {
    /// How the time compares with
    pub comparison: Comparison,
    /// this one.
    pub point: TimePoint,
}

impl Search {
    /// Where to look.
    pub fn plan(&self) -> Plan {
        let context = self.context.as_ref();
        let within = context.and_then(|context| context.narrowest(&places_of, &vagueness));
        let threads = context.and_then(|context| context.narrowest(&threads_of, &|_| 0));
        let mut times = Vec::new();
        context.inspect(|context| context.collect_times(&mut times));
        Plan {
            occurrences: self.event.occurrences(within.as_deref()),
            within,
            threads,
            times,
            on_stack: context.map(Context::on_stack).unwrap_or_default(),
            cost: context.map(Context::cost),
        }
    }
}

impl Plan {
    /// The times that the bounds leave of a run; `None` if there are none. Bounds by a time that is not known are left out.
    pub fn window(&self, clock: &Clock) -> Option<RangeInclusive<u64>> {
        let (mut first, mut last) = (0, clock.end);
        for bound in &self.times {
            let Some(time) = bound.point.on(clock) else { continue };
            match bound.comparison {
                Comparison::Equal => (first, last) = (first.max(time), last.min(time)),
                Comparison::NotEqual => {}
                Comparison::Less => last = last.min(time.checked_sub(1)?),
                Comparison::LessOrEqual => last = last.min(time),
                Comparison::Greater => first = first.max(time.checked_add(1)?),
                Comparison::GreaterOrEqual => first = first.max(time),
            }
        }
        (first <= last).then_some(first..=last)
    }
}

impl Event {
    fn occurrences(&self, within: Option<&[Place]>) -> Occurrences {
        let every = Occurrences::Every(self.kind());
        match self {
            Event::FunctionEnter(callee) => {
                callees(callee.as_ref(), within).map_or(every, Occurrences::Calls)
            }
            Event::FunctionExit(callee) => {
                callees(callee.as_ref(), within).map_or(every, Occurrences::Returns)
            }
            Event::BlockEntry(Some(place)) | Event::Instruction(Some(place)) => {
                Occurrences::Executions(vec![place.clone()])
            }
            Event::Line(Some(source)) => {
                Occurrences::Executions(vec![Place::Source(source.clone())])
            }
            Event::Store(Some(location)) => Occurrences::Writes(location.clone()),
            Event::Load(Some(location)) => Occurrences::Reads(location.clone()),
            Event::BlockEntry(None)
            | Event::Instruction(None)
            | Event::Line(None)
            | Event::Store(None)
            | Event::Load(None) => {
                within.map_or(every, |places| Occurrences::Executions(places.to_vec()))
            }
            Event::Syscall(_)
            | Event::Signal(_)
            | Event::Map(_)
            | Event::ThreadStart
            | Event::ThreadEnd => Occurrences::Listed(self.kind()),
        }
    }
}

/// The functions that can be entered or left: those that are asked for, or else those that the place has to be in.
fn callees(callee: Option<&Callee>, within: Option<&[Place]>) -> Option<Vec<Callee>> {
    match callee {
        Some(Callee::Named(pattern)) if pattern.is_anything() => {}
        Some(callee) => return Some(vec![callee.clone()]),
        None => {}
    }
    let named = |place: &Place| match place {
        Place::Function(pattern) => Some(Callee::Named(pattern.clone())),
        // A function may be left at an address or a line that tells nothing of where it begins.
        Place::Address(_) | Place::Source(_) => None,
    };
    within?.iter().map(named).collect()
}

impl Context {
    /// Alternatives of which one applies to every moment that fits: the least vague ones, then the fewest.
    fn narrowest<T>(
        &self,
        of_condition: &impl Fn(&Condition) -> Option<Vec<T>>,
        vagueness: &impl Fn(&T) -> u8,
    ) -> Option<Vec<T>> {
        let of_part = |part: &Context| part.narrowest(of_condition, vagueness);
        let rank =
            |alternatives: &Vec<T>| (alternatives.iter().map(vagueness).max(), alternatives.len());
        match self {
            Context::All(parts) => parts.iter().filter_map(of_part).min_by_key(rank),
            Context::Any(parts) => {
                let each: Option<Vec<Vec<T>>> = parts.iter().map(of_part).collect();
                Some(each?.into_iter().flatten().collect())
            }
            Context::Not(_) => None,
            Context::Condition(condition) => of_condition(condition),
        }
    }

    fn collect_times(&self, times: &mut Vec<TimeBound>) {
        match self {
            Context::All(parts) => parts.iter().for_each(|part| part.collect_times(times)),
            Context::Condition(Condition::Time(comparison, point)) => {
                times.push(TimeBound { comparison: *comparison, point: *point });
            }
            Context::Any(_) | Context::Not(_) | Context::Condition(_) => {}
        }
    }

    fn on_stack(&self) -> Vec<Pattern> {
        let mut patterns = match self {
            Context::All(parts) => parts.iter().flat_map(Context::on_stack).collect(),
            Context::Any(parts) => {
                let mut each = parts.iter().map(Context::on_stack);
                let first = each.next().unwrap_or_default();
                each.fold(first, |common, other| {
                    common.into_iter().filter(|pattern| other.contains(pattern)).collect()
                })
            }
            Context::Condition(Condition::Stack(pattern)) => pattern.required().cloned().collect(),
            Context::Condition(Condition::Function(pattern)) => vec![pattern.clone()],
            Context::Not(_) | Context::Condition(_) => Vec::new(),
        };
        let mut seen = std::collections::HashSet::new();
        patterns.retain(|pattern: &Pattern| !pattern.is_anything() && seen.insert(pattern.clone()));
        patterns
    }
}

fn places_of(condition: &Condition) -> Option<Vec<Place>> {
    match condition {
        Condition::Source(source) => Some(vec![Place::Source(source.clone())]),
        Condition::Function(pattern) if !pattern.is_anything() => {
            Some(vec![Place::Function(pattern.clone())])
        }
        Condition::Stack(stack) => Some(vec![Place::Function(stack.innermost()?.clone())]),
        Condition::Compare(Word::Pc, Comparison::Equal, Operand::Integer(address)) => {
            Some(u64::try_from(*address).map(Place::Address).into_iter().collect())
        }
        _ => None,
    }
}

/// How much code a place may be.
fn vagueness(place: &Place) -> u8 {
    match place {
        Place::Address(_) => 0,
        Place::Source(source) if source.lines.is_some() => 1,
        Place::Function(pattern) if pattern.literal().is_some() => 2,
        Place::Source(_) => 3,
        Place::Function(_) => 4,
    }
}

fn threads_of(condition: &Condition) -> Option<Vec<u32>> {
    match condition {
        Condition::Compare(Word::Thread, Comparison::Equal, Operand::Integer(thread)) => {
            Some(u32::try_from(*thread).into_iter().collect())
        }
        _ => None,
    }
}
