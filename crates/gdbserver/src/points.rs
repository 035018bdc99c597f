//! What a client wants to be told: breakpoints, watchpoints, signals, system calls.

use std::collections::HashSet;

use crate::own_frame::{FrameBound, Step};
use crate::request::{Point, PointKind};

/// What to stop at.
#[derive(Clone, Debug, Default)]
pub struct Points {
    all: Vec<Point>,
    /// The command that steps, while there is one.
    pub step: Option<Step>,
    /// Signals that nobody wants to be told of.
    pub passed_signals: HashSet<u32>,
    /// System calls to stop at: all if there are no numbers.
    pub caught_syscalls: Option<Vec<u64>>,
}

impl Points {
    /// Takes one more. One at the same place is replaced: clients change conditions so.
    pub fn insert(&mut self, point: Point) {
        self.remove(&point);
        self.all.push(point);
    }

    /// Forgets one.
    pub fn remove(&mut self, point: &Point) {
        if let Some(step) = &mut self.step {
            // A new one at the same address may mean another frame.
            let is_other = |bound: &FrameBound| bound.address != point.address;
            step.bound = step.bound.filter(is_other);
        }
        self.all.retain(|known| {
            (known.kind, known.address) != (point.kind, point.address)
                || (point.kind != PointKind::Execute && known.len != point.len)
        });
    }

    /// Where instructions have breakpoints.
    pub fn breakpoint_addresses(&self) -> Vec<u64> {
        let breakpoints = self.all.iter().filter(|point| point.kind == PointKind::Execute);
        breakpoints.map(|point| point.address).collect()
    }

    /// Where there are breakpoints that are not at some addresses.
    pub fn addresses_but(&self, others: &HashSet<u64>) -> Vec<u64> {
        let mut addresses = self.breakpoint_addresses();
        addresses.retain(|address| !others.contains(address));
        addresses
    }

    /// The breakpoint at an address.
    pub fn breakpoint_at(&self, address: u64) -> Option<&Point> {
        let mut all = self.all.iter();
        all.find(|point| point.kind == PointKind::Execute && point.address == address)
    }

    /// Watchpoints that stop when memory is written.
    pub fn watched_writes(&self) -> impl Iterator<Item = &Point> {
        let is_meant = |point: &&Point| matches!(point.kind, PointKind::Write | PointKind::Access);
        self.all.iter().filter(is_meant)
    }

    /// Watchpoints that stop when memory is read.
    pub fn watched_reads(&self) -> impl Iterator<Item = &Point> {
        let is_meant = |point: &&Point| matches!(point.kind, PointKind::Read | PointKind::Access);
        self.all.iter().filter(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_replaced_and_removed_by_place() {
        let point = |kind, address, len| Point { kind, address, len, conditions: Vec::new() };
        let mut points = Points::default();
        points.insert(point(PointKind::Execute, 1, 1));
        let conditions = vec![vec![0x27]];
        points.insert(Point { conditions: conditions.clone(), ..point(PointKind::Execute, 1, 1) });
        assert_eq!(points.breakpoint_addresses(), [1]);
        assert_eq!(points.breakpoint_at(1).unwrap().conditions, conditions);
        points.insert(point(PointKind::Write, 1, 4));
        points.insert(point(PointKind::Write, 1, 8));
        points.insert(point(PointKind::Access, 1, 8));
        points.remove(&point(PointKind::Write, 1, 4));
        assert_eq!(points.watched_writes().count(), 2);
        assert_eq!(points.watched_reads().count(), 1);
        points.remove(&point(PointKind::Execute, 1, 0));
        assert_eq!(points.breakpoint_addresses(), [0u64; 0]);
    }

    #[test]
    fn what_is_not_the_users_is_the_clients() {
        let mut points = Points::default();
        for address in [1, 2] {
            let kind = PointKind::Execute;
            points.insert(Point { kind, address, len: 1, conditions: Vec::new() });
        }
        assert_eq!(points.addresses_but(&HashSet::from([2, 3])), [1]);
    }
}
