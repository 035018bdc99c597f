//! How the view moves: along the run as the client resumes it, or to where a command leads.

use retro_query::language::Query;
use retro_query::{Cancel, Direction, Error, Goto, GotoContext};

use super::{Reply, Session};
use crate::debuggee::Debuggee;
use crate::request::{Action, Motion};
use crate::resume::{Course, Resume};
use crate::stop::{Reason, Stop};
use crate::{own_frame, thread_names};

/// Why there is no more history where the run goes on.
const NOT_INDEXED: &str = "retro: the recording is indexed up to here; it goes on as soon as the next part is indexed \
     (`retro index` does that)\n";

/// Where a client wants to be.
#[derive(Clone, Debug)]
pub(crate) enum Sought {
    /// At a time.
    Time(u64),
    /// Where a query leads to: looked for when the client resumes, since it can interrupt that.
    Query(Query),
}

impl Session {
    pub(super) fn resume(&mut self, actions: &[Action], cancel: &Cancel) -> Reply {
        let named = |action: &Action| self.chosen(action.thread);
        let stepping = actions.iter().find(|action| action.motion != Motion::Continue);
        let step = stepping.map(|action| {
            let thread = named(action).or(self.running_thread).unwrap_or(self.stop.thread);
            (thread, action.motion)
        });
        // Threads that no action is for stay where they are, as far as the client is concerned.
        let only = match actions {
            [single] => named(single),
            _ => None,
        };
        self.go(Course { direction: Direction::Forward, step, only }, cancel)
    }

    /// Moves the view, and tells where to.
    pub(super) fn go(&mut self, course: Course, cancel: &Cancel) -> Reply {
        self.debuggee.look_for_more();
        let found = match self.sought.take() {
            Some(Sought::Time(time)) => self.stop_at(time, None),
            Some(Sought::Query(query)) => self.look_for(&query, cancel),
            None => self.first_stop(course, cancel),
        };
        match found {
            Ok(stop) => {
                if self.debuggee.ends_early(&stop) {
                    self.remarks.push(NOT_INDEXED.to_owned());
                }
                self.move_to(stop);
                self.look_back(course);
                // Clients ask for them at the stop, and wait less patiently then.
                let _ = thread_names::names(&self.debuggee, &[], stop.time);
            }
            Err(Error::Cancelled) => {
                self.stop.reason = Reason::Interrupted;
            }
            Err(error) => {
                self.remarks.push(format!("{error}\n"));
                self.stop.reason = Reason::Sought;
            }
        }
        let told = std::mem::take(&mut self.remarks);
        match self.stop_text() {
            Ok(text) => Reply::Told(told, text),
            Err(error) => Reply::Told(vec![format!("{error}\n")], b"T05".to_vec()),
        }
    }

    fn first_stop(&mut self, course: Course, cancel: &Cancel) -> Result<Stop, Error> {
        self.points.step.take_if(|step| !step.can_be(course));
        if let Some(step) = &mut self.points.step {
            step.is_under_way = true;
        }
        let Debuggee { run, process, .. } = &self.debuggee;
        let resume = Resume { run, process, from: self.stop, points: &self.points, cancel };
        let bound = own_frame::bound(&resume, course)?;
        let found = resume.first_stop(course, bound);
        if let Some(step) = self.points.step.as_mut().filter(|_| course.step.is_none()) {
            step.bound = bound;
        }
        found
    }

    fn stop_at(&self, time: u64, thread: Option<u32>) -> Result<Stop, Error> {
        let thread = match thread {
            Some(thread) => thread,
            None => self.debuggee.run.state(self.debuggee.at(time))?.thread()?,
        };
        Ok(Stop { time, thread, reason: Reason::Sought })
    }

    fn look_for(&mut self, query: &Query, cancel: &Cancel) -> Result<Stop, Error> {
        let context = GotoContext {
            log: self.debuggee.process.log,
            now: self.stop.time,
            last: self.last,
            thread: Some(self.stop.thread),
            frame: 0,
        };
        let found = match self.debuggee.run.goto(query, &context, cancel)? {
            Goto::Moment(moment) => Some((moment.time, None)),
            Goto::Found(found) => found.map(|found| (found.time, Some(found.thread))),
            Goto::All(mut all) => {
                all.next().transpose()?.map(|found| (found.time, Some(found.thread)))
            }
        };
        let Some((time, thread)) = found else {
            return Err(Error::Question("nothing in the run fits".to_owned()));
        };
        self.last = Some(time);
        self.stop_at(time, thread)
    }

    fn move_to(&mut self, stop: Stop) {
        if stop.time != self.stop.time {
            self.state = None;
            self.document = None;
        }
        self.stop = stop;
        self.general_thread = None;
    }

    /// Replays the moments before this one, more of them the more steps back there were, so that further steps cost little.
    fn look_back(&mut self, course: Course) {
        const FEW: u32 = 3;
        const MOST: u32 = 10;
        if course.direction == Direction::Forward || course.step.is_none() {
            // Replay goes forwards by itself.
            (self.stretch, self.steps_back) = (None, 0);
            return;
        }
        self.steps_back = (self.steps_back + 1).min(MOST + FEW);
        let time = self.stop.time;
        let is_near = self.stretch.as_ref().is_some_and(|near| near.times().contains(&time));
        if is_near || self.steps_back <= FEW {
            return;
        }
        let Debuggee { run, .. } = &self.debuggee;
        // Without it everything is only slower.
        self.stretch = run.stretch(self.debuggee.at(time), 1 << (self.steps_back - FEW)).ok();
    }
}
