//! Which codes the guests really execute.
//!
//! Generation may drop a code and a case may end in a signal before it gets there, so coverage is
//! taken from native runs: a code counts when a record shows that control went through it.

use super::catalogue::{Catalogue, Group};
use super::class::{Class, Plan};
use super::cpu::Cpu;
use super::guest::Guest;
use super::layout::Placement;
use super::record::{Record, records};
use super::run::{Executable, Runner};
use anyhow::{Result, ensure};
use iced_x86::Code;
use std::collections::{BTreeMap, HashSet};

/// The codes executed natively by the guests of all classes.
#[derive(Clone, Debug)]
pub struct Coverage {
    catalogue: Catalogue,
    executed: HashSet<Code>,
    /// Per class and placement: cases and, of these, how many raised a signal.
    signals: Vec<(Class, Placement, usize, usize)>,
}

impl Coverage {
    /// Runs one guest per class and placement.
    ///
    /// # Errors
    /// When a guest cannot be built or does not end well.
    pub fn measure(seed: u64) -> Result<Coverage> {
        let cpu = Cpu::detect();
        let catalogue = Catalogue::new(&cpu);
        let mut coverage = Coverage { catalogue, executed: HashSet::new(), signals: Vec::new() };
        for class in Class::ALL {
            let plan = Plan::new(&cpu, &coverage.catalogue, class);
            for placement in [Placement::Low, Placement::High] {
                if !plan.featured.is_empty() {
                    coverage.add(&cpu, &plan, class, placement, seed)?;
                }
            }
        }
        Ok(coverage)
    }

    fn add(
        &mut self,
        cpu: &Cpu,
        plan: &Plan,
        class: Class,
        placement: Placement,
        seed: u64,
    ) -> Result<()> {
        let mut guest = Guest::generate(cpu, plan, class, placement, seed)?;
        let elf = guest.build(cpu)?;
        let executable = Executable::create(&format!("coverage-{class:?}-{placement:?}"), &elf)?;
        let outcome = executable.run(Runner::Native)?;
        let complete = outcome.status.is_some_and(|status| status.success());
        ensure!(complete, "{class:?} {placement:?}: the guest {}", outcome.describe_end());
        let mut signals = 0;
        let traps = self.catalogue.codes(&[Group::Trap]).into_iter().collect();
        for record in records(&outcome.output).iter().take(guest.cases.len()) {
            signals += usize::from(record.signal().is_some());
            self.executed.extend(executed(&guest, record, &traps));
        }
        self.signals.push((class, placement, guest.cases.len(), signals));
        Ok(())
    }

    /// Percentage of the catalogue that was executed.
    pub fn percentage(&self) -> f64 {
        let entries = self.catalogue.entries();
        let executed = entries.iter().filter(|(code, _)| self.executed.contains(code)).count();
        100.0 * executed as f64 / entries.len() as f64
    }

    /// Executed and existing codes per group, what is missing, and signals per class.
    pub fn describe(&self) -> String {
        let mut groups: BTreeMap<Group, (usize, Vec<Code>)> = BTreeMap::new();
        for &(code, group) in self.catalogue.entries() {
            let (total, missing) = groups.entry(group).or_default();
            *total += 1;
            if !self.executed.contains(&code) {
                missing.push(code);
            }
        }
        let mut text =
            format!("{:.1} % of {} codes\n", self.percentage(), self.catalogue.entries().len());
        for (group, (total, missing)) in groups {
            text +=
                &format!("{group:?}: {} of {total}; missing {missing:?}\n", total - missing.len());
        }
        for (class, placement, cases, signals) in &self.signals {
            text +=
                &format!("{class:?} {placement:?}: {signals} of {cases} cases raised a signal\n");
        }
        text
    }

    /// Classes in which too many cases end early to say much about their instructions.
    pub fn fruitless(&self) -> Vec<Class> {
        let is_meant = |class: &Class| {
            use Class::*;
            matches!(
                class,
                MemoryFaults
                    | FloatFaults
                    | AlignmentFaults
                    | Traps
                    | ShortBranches
                    | FarBranches
                    | System
            )
        };
        let signals = self.signals.iter();
        signals
            .filter(|(class, _, cases, signals)| !is_meant(class) && signals * 4 > *cases)
            .map(|entry| entry.0)
            .collect()
    }
}

/// The codes a case went through: all, or those up to the instruction that raised the signal. An
/// instruction that turned out to be invalid counts only if it is meant to be.
fn executed(guest: &Guest, record: &Record, traps: &HashSet<Code>) -> Vec<Code> {
    let case = &guest.cases[record.case()];
    let (address, body) = &guest.bodies[record.case()];
    let end = address + body.bytes.len() as u64;
    let stop = match record.signal() {
        Some(libc::SIGILL) => record.signal_pc(),
        Some(_) if (*address..end).contains(&record.signal_pc()) => record.signal_pc() + 1,
        _ => end,
    };
    case.body
        .iter()
        .zip(&body.offsets)
        .filter(|(piece, offset)| {
            let here = address + (**offset as u64);
            here < stop
                || here == stop && piece.item.code().is_some_and(|code| traps.contains(&code))
        })
        .filter_map(|(piece, _)| piece.item.code())
        .collect()
}
