//! Answers to all questions by looking at everything.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use retro_index::call_tree::matching::{Matcher, Parenthesis};
use retro_index::call_tree::{BLOCK, CallTree, Callee, ThreadCalls};

use crate::runs::{Chance, Deed, Happening};

/// All that is known of a thread.
pub struct Oracle {
    thread: u32,
    parentheses: Vec<Parenthesis>,
    times: Vec<u64>,
    windows: Vec<u64>,
    /// At each position, the end included.
    excess: Vec<i64>,
    enclosing: Vec<Option<u64>>,
    /// The other half of each parenthesis.
    mates: Vec<Option<u64>>,
    happenings: Vec<Happening>,
}

impl Oracle {
    pub fn new(run: &[Happening], thread: u32) -> Oracle {
        let mut oracle = Oracle {
            thread,
            parentheses: Vec::new(),
            times: Vec::new(),
            windows: Vec::new(),
            excess: vec![0],
            enclosing: vec![None],
            mates: Vec::new(),
            happenings: run
                .iter()
                .copied()
                .filter(|happening| happening.thread == thread)
                .collect(),
        };
        let mut matcher = Matcher::default();
        for happening in &oracle.happenings {
            feed(&mut matcher, happening.deed, &mut oracle.parentheses);
            oracle.times.resize(oracle.parentheses.len(), happening.time);
            oracle.windows.resize(oracle.parentheses.len(), happening.window);
        }
        oracle.match_parentheses();
        oracle
    }

    fn match_parentheses(&mut self) {
        let mut open = Vec::new();
        for (position, parenthesis) in self.parentheses.iter().enumerate() {
            let is_open = *parenthesis != Parenthesis::Close;
            self.mates.push(None);
            if is_open {
                open.push(position as u64);
            } else if let Some(mate) = open.pop() {
                self.mates[mate as usize] = Some(position as u64);
                self.mates[position] = Some(mate);
            }
            self.excess.push(self.excess[position] + if is_open { 1 } else { -1 });
            self.enclosing.push(open.last().copied());
        }
    }

    pub fn len(&self) -> u64 {
        self.parentheses.len() as u64
    }

    fn is_open(&self, position: u64) -> bool {
        self.parentheses
            .get(position as usize)
            .is_some_and(|parenthesis| *parenthesis != Parenthesis::Close)
    }

    fn children(&self, open: u64) -> Vec<u64> {
        let mut children = Vec::new();
        let mut next = Some(open + 1).filter(|_| self.is_open(open));
        while let Some(child) = next
            && self.is_open(child)
        {
            children.push(child);
            next = self.mates[child as usize].map(|close| close + 1);
        }
        children
    }

    /// Asks about so many random positions and a few that are special.
    pub fn check(
        &self,
        tree: &CallTree,
        questions: u64,
        chance: &mut Chance,
    ) -> Result<(), TestCaseError> {
        let calls = tree.thread(self.thread).expect("the file is sound");
        if self.happenings.is_empty() {
            prop_assert!(calls.is_none());
            return Ok(());
        }
        let calls = calls.expect("the thread did something");
        prop_assert_eq!(calls.len(), self.len());
        prop_assert_eq!(calls.is_empty(), self.len() == 0);
        prop_assert_eq!(calls.last_time(), self.happenings.last().map_or(0, |last| last.time));
        for position in [0, 1, BLOCK as u64, self.len().saturating_sub(1), self.len()] {
            self.check_position(&calls, position.min(self.len()), chance)?;
        }
        for _ in 0..questions {
            self.check_position(&calls, chance.below(self.len() + 1), chance)?;
            self.check_range(&calls, chance)?;
            self.check_time(&calls, chance)?;
            self.check_window(&calls, tree.windows(), chance)?;
        }
        prop_assert!(calls.excess(self.len() + 1).is_err());
        prop_assert!(calls.is_open(self.len()).is_err());
        Ok(())
    }

    fn check_position(
        &self,
        calls: &ThreadCalls,
        position: u64,
        chance: &mut Chance,
    ) -> Result<(), TestCaseError> {
        let index = position as usize;
        prop_assert_eq!(calls.excess(position).unwrap(), self.excess[index]);
        prop_assert_eq!(calls.enclosing(position).unwrap(), self.enclosing[index]);
        let opens = (0..position).filter(|&before| self.is_open(before)).count() as u64;
        prop_assert_eq!(calls.rank_open(position).unwrap(), opens);
        let mut outer = Vec::new();
        let mut next = self.enclosing[index];
        while let Some(open) = next
            && outer.len() < 100
        {
            outer.push(open);
            next = self.enclosing[open as usize];
        }
        let found: Vec<u64> =
            calls.enclosing_calls(position).take(100).map(Result::unwrap).collect();
        prop_assert_eq!(found, outer);
        let lowest = self.excess[..=index].iter().min().copied().unwrap_or(0);
        prop_assert_eq!(calls.depth(position).unwrap(), (self.excess[index] - lowest) as u64);
        let limit = self.excess[index] - chance.below(20) as i64 + 2;
        let next = (position..=self.len()).find(|&next| self.excess[next as usize] <= limit);
        prop_assert_eq!(calls.next_at_or_below(position, limit).unwrap(), next);
        let previous =
            (0..=position).rev().find(|&previous| self.excess[previous as usize] <= limit);
        prop_assert_eq!(calls.previous_at_or_below(position, limit).unwrap(), previous);
        if position < self.len() {
            self.check_parenthesis(calls, position, opens, chance)?;
        }
        Ok(())
    }

    fn check_parenthesis(
        &self,
        calls: &ThreadCalls,
        position: u64,
        opens: u64,
        chance: &mut Chance,
    ) -> Result<(), TestCaseError> {
        let index = position as usize;
        let is_open = self.is_open(position);
        let (close, open) =
            if is_open { (self.mates[index], None) } else { (None, self.mates[index]) };
        prop_assert_eq!(calls.is_open(position).unwrap(), is_open);
        prop_assert_eq!(calls.find_close(position).unwrap(), close);
        prop_assert_eq!(calls.find_open(position).unwrap(), open);
        if is_open {
            prop_assert_eq!(calls.select_open(opens).unwrap(), Some(position));
        }
        let children = self.children(position);
        prop_assert_eq!(calls.children(position).unwrap(), children.len() as u64);
        for number in [0, chance.below(children.len() as u64 + 1), children.len() as u64] {
            prop_assert_eq!(
                calls.child(position, number).unwrap(),
                children.get(number as usize).copied()
            );
        }
        let (from, to) = calls.time_bounds(position).unwrap();
        prop_assert!(from <= self.times[index] && self.times[index] <= to);
        let block = index - index % BLOCK;
        prop_assert_eq!(from, self.times[block]);
        prop_assert_eq!(to, self.times.get(block + BLOCK).copied().unwrap_or(calls.last_time()));
        prop_assert_eq!(calls.window_of(position).unwrap(), self.windows[index]);
        let callee = match self.parentheses[index] {
            Parenthesis::Open { target, resumed } => Some(Callee { target, resumed }),
            Parenthesis::Close => None,
        };
        let found = calls.callee(position).unwrap();
        prop_assert!(found == callee || found.is_none(), "{found:?} instead of {callee:?}");
        Ok(())
    }

    fn check_range(&self, calls: &ThreadCalls, chance: &mut Chance) -> Result<(), TestCaseError> {
        let start = chance.below(self.len() + 1);
        let range = start..start + chance.below(self.len() - start + 1);
        let values = &self.excess[range.start as usize..=range.end as usize];
        let bounds =
            (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
        prop_assert_eq!(calls.excess_bounds(range).unwrap(), bounds);
        Ok(())
    }

    fn check_time(&self, calls: &ThreadCalls, chance: &mut Chance) -> Result<(), TestCaseError> {
        let time = 900 + chance.below(self.times.last().copied().unwrap_or(0));
        let before = self.times.partition_point(|&earlier| earlier < time) as u64;
        let (from, to) = calls.positions_before(time).unwrap();
        prop_assert!(from <= before && before <= to, "{from} <= {before} <= {to}");
        prop_assert!(to - from < BLOCK as u64);
        Ok(())
    }

    fn check_window(
        &self,
        calls: &ThreadCalls,
        windows: u64,
        chance: &mut Chance,
    ) -> Result<(), TestCaseError> {
        let window = chance.below(windows + 2);
        let before = self.windows.partition_point(|&earlier| earlier < window);
        prop_assert_eq!(calls.parentheses_before(window).unwrap(), before as u64);
        let mut matcher = calls.matcher_at(window).unwrap();
        let mut found = Vec::new();
        for happening in self.happenings.iter().filter(|happening| happening.window == window) {
            feed(&mut matcher, happening.deed, &mut found);
        }
        let alike = |(one, other): (&Parenthesis, &Parenthesis)| {
            (*one == Parenthesis::Close) == (*other == Parenthesis::Close)
        };
        prop_assert!(found.iter().zip(&self.parentheses[before..]).all(alike), "window {window}");
        let end = self.windows.partition_point(|&earlier| earlier <= window);
        prop_assert_eq!(found.len(), end - before);
        Ok(())
    }

    /// The calls of a function within a range.
    pub fn calls_of(&self, target: u64, range: std::ops::Range<u64>) -> Vec<u64> {
        let wanted = Parenthesis::Open { target, resumed: false };
        range.filter(|&position| self.parentheses[position as usize] == wanted).collect()
    }

    /// That every open has its callee.
    pub fn check_callees(&self, tree: &CallTree, chance: &mut Chance) -> Result<(), TestCaseError> {
        let Some(calls) = tree.thread(self.thread).unwrap() else { return Ok(()) };
        for _ in 0..50 {
            let position = chance.below(self.len());
            if let Some(Parenthesis::Open { target, resumed }) =
                self.parentheses.get(position as usize)
            {
                let expected = Callee { target: *target, resumed: *resumed };
                prop_assert_eq!(calls.callee(position).unwrap(), Some(expected));
                let range = position / 2..self.len();
                let all = self.calls_of(*target, range.clone());
                for number in [0, chance.below(all.len() as u64 + 1)] {
                    let found = calls.find_call_of(*target, range.clone(), number).unwrap();
                    prop_assert_eq!(found, all.get(number as usize).copied());
                }
            }
        }
        Ok(())
    }
}

fn feed(matcher: &mut Matcher, deed: Deed, found: &mut Vec<Parenthesis>) {
    match deed {
        Deed::Call { slot, target } => {
            matcher.call(slot, target, |parenthesis| found.push(parenthesis))
        }
        Deed::Return { slot } => matcher.returned(slot, |parenthesis| found.push(parenthesis)),
    }
}
