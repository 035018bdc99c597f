//! The comparison: native twice, translated once, and a report on every case that differs.

use super::class::{Class, Plan};
use super::cpu::Cpu;
use super::dispatcher::PASSES;
use super::guest::Guest;
use super::layout::Placement;
use super::record::records;
use super::reduce::reduce;
use super::report::{Difference, report};
use super::run::{Executable, Outcome, Runner};
use super::{Catalogue, case::Case};
use anyhow::{Result, bail, ensure};

/// Differing cases of a class that are reduced and shown; the others are only counted. A reduction
/// runs a dozen guests three times each, and a failing class should say so within seconds.
const REDUCED: usize = 3;
/// Crashes after which the rest of a guest's cases is given up.
const CRASHES: usize = 12;

/// Compares one class, in both placements, for each seed.
///
/// # Errors
/// Describes the cases that differ.
pub fn check(runner: Runner, class: Class, seeds: impl IntoIterator<Item = u64>) -> Result<()> {
    let cpu = Cpu::detect();
    let plan = Plan::new(&cpu, &Catalogue::new(&cpu), class);
    if plan.featured.is_empty() {
        return Ok(());
    }
    let mut problems = Vec::new();
    let mut reductions = REDUCED;
    for seed in seeds {
        for placement in [Placement::Low, Placement::High] {
            let guest = Guest::generate(&cpu, &plan, class, placement, seed)?;
            let comparison = Comparison {
                cpu: &cpu,
                runner,
                keep_pointers: plan.style.x87_pointers,
                placement,
                class,
                seed,
            };
            let mut differing = comparison.differing_cases(guest.clone())?;
            for _ in 0..comparison.repetitions() {
                if differing.is_empty() {
                    break;
                }
                let again = comparison.differing_cases(guest.clone())?;
                differing.retain(|case| again.contains(case));
            }
            if !differing.is_empty() {
                problems.push(comparison.describe(&guest, &differing, &mut reductions)?);
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}

/// A case that came out differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Differing {
    /// Its number in the guest.
    case: usize,
    /// The first case of the run in which it differed.
    company: usize,
}

/// How two runs of one guest are compared.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The processor.
    pub cpu: &'a Cpu,
    /// What executes the guest the second time.
    pub runner: Runner<'a>,
    /// Whether x87 instruction and operand pointers count.
    pub keep_pointers: bool,
    /// Where the guest lies.
    pub placement: Placement,
    /// The class, for names and reports.
    pub class: Class,
    /// The seed, for names and reports.
    pub seed: u64,
}

impl Comparison<'_> {
    /// The cases that come out differently.
    fn differing_cases(&self, guest: Guest) -> Result<Vec<Differing>> {
        let mut differing = Vec::new();
        let mut rest = guest;
        let mut first = 0;
        for _ in 0..CRASHES {
            let (native, translated) = self.run(&mut rest)?;
            let (found, crashed) = self.compare(&native, &translated, rest.cases.len());
            let crashing = crashed.filter(|case| !found.contains(case));
            let cases = found.into_iter().chain(crashing);
            differing.extend(cases.map(|case| Differing { case: first + case, company: first }));
            // Behind a crash the cases have not run: go on with those, unless the next one may
            // also take all the time there is.
            let Some(crashed) = crashed.filter(|_| !translated.timed_out()) else { break };
            first += crashed + 1;
            let remaining: Vec<Case> = rest.cases.split_off(crashed + 1);
            if remaining.is_empty() {
                break;
            }
            rest = rest.with_cases(remaining);
        }
        Ok(differing)
    }

    /// How often a class may be run again because something outside the guest disturbed it. The
    /// kernel loses the x87 pointers, and only those, at some context switches: a case that shows
    /// them counts only if it differs each time.
    fn repetitions(&self) -> usize {
        if self.keep_pointers { 16 } else { 0 }
    }

    /// How `case` of `guest` differs when it runs alone, if it does.
    pub fn difference(&self, guest: &Guest, case: Case) -> Result<Option<Difference>> {
        let mut alone = guest.with_cases(vec![case]);
        let (native, translated) = self.run(&mut alone)?;
        let (found, crashed) = self.compare(&native, &translated, 1);
        let differs = !found.is_empty() || crashed.is_some();
        Ok(differs.then(|| Difference::new(self, alone, 0, native, translated)))
    }

    /// How a case differs when it runs after the cases before it.
    fn difference_in_company(&self, guest: &Guest, differing: Differing) -> Result<Difference> {
        let Differing { case, company } = differing;
        let mut guest = guest.with_cases(guest.cases[company..=case].to_vec());
        let (native, translated) = self.run(&mut guest)?;
        Ok(Difference::new(self, guest, case - company, native, translated))
    }

    fn run(&self, guest: &mut Guest) -> Result<(Outcome, Outcome)> {
        let elf = guest.build(self.cpu)?;
        let executable = Executable::create(&self.name(), &elf)?;
        let mut native = executable.run(Runner::Native)?;
        let mut again = executable.run(Runner::Native)?;
        let complete = |outcome: &Outcome| outcome.status.is_some_and(|status| status.success());
        let (mut unstable, mut torn) = self.compare(&native, &again, guest.cases.len());
        for _ in 0..self.repetitions() {
            if unstable.is_empty() {
                break;
            }
            native = again;
            again = executable.run(Runner::Native)?;
            (unstable, torn) = self.compare(&native, &again, guest.cases.len());
        }
        ensure!(complete(&native), "{}: the guest itself {}", self.name(), native.describe_end());
        let expected = PASSES * guest.cases.len();
        ensure!(records(&native.output).len() == expected, "{}: records are missing", self.name());
        ensure!(torn.is_none(), "{}: a second native run {}", self.name(), again.describe_end());
        if let Some(&case) = unstable.first() {
            let difference = Difference::new(self, guest.clone(), case, native, again);
            bail!("{}: nondeterministic, also natively\n{difference}", self.name());
        }
        let translated = executable.run(self.runner)?;
        Ok((native, translated))
    }

    /// Cases that differ, and the case in which the second run ended early.
    fn compare(
        &self,
        expected: &Outcome,
        actual: &Outcome,
        cases: usize,
    ) -> (Vec<usize>, Option<usize>) {
        let (expected_records, actual_records) =
            (records(&expected.output), records(&actual.output));
        let mut differing: Vec<usize> = expected_records
            .iter()
            .zip(&actual_records)
            .filter(|(left, right)| {
                left.comparable(self.cpu, self.keep_pointers)
                    != right.comparable(self.cpu, self.keep_pointers)
            })
            .map(|(left, _)| left.case())
            .collect();
        differing.sort_unstable();
        differing.dedup();
        let ended_early = actual_records.len() < expected_records.len();
        (differing, ended_early.then(|| actual_records.len() % cases))
    }

    /// How many cases differ, and how the first of them do, as far as `reductions` go.
    fn describe(
        &self,
        guest: &Guest,
        differing: &[Differing],
        reductions: &mut usize,
    ) -> Result<String> {
        let mut text =
            format!("{}: {} of {} cases differ\n", self.name(), differing.len(), guest.cases.len());
        let shown = differing.len().min(*reductions);
        *reductions -= shown;
        for &differing in &differing[..shown] {
            let case = differing.case;
            let (difference, how) = match reduce(self, guest, guest.cases[case].clone())? {
                Some(alone) => (alone, ""),
                None => {
                    (self.difference_in_company(guest, differing)?, " (only after those before it)")
                }
            };
            text += &format!("\n--- case {case}{how}: {}\n", difference.signature());
            text += &report(&difference, &self.name(), case)?;
        }
        Ok(text)
    }

    fn name(&self) -> String {
        format!("{:?}-{:?}-{}", self.class, self.placement, self.seed).to_lowercase()
    }
}
