//! Who gets the next worker.
//!
//! Every client has a queue of its own. A free worker takes the oldest job of the client that holds the fewest workers,
//! in turn among equals, so that a client with a thousand requests gets no more than its share, and none holds all
//! workers. A client that does not fetch its answers is passed over.
//!
//! Invariants: a job is finished exactly once, by being run or by being refused, unless its client is gone; jobs are
//! run and refused outside the lock; the sum of waiting bytes and the queues agree whenever the lock is free.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::cancel::Cancel;
use crate::limits::Limits;
use crate::message::{ErrorCode, Failure, Id};
use crate::outbox::Backlog;

/// Stack of a worker: questions walk types and syntax trees.
const WORKER_STACK: usize = 8 << 20;

/// What becomes of a job.
pub(crate) enum Fate {
    Run,
    Refuse(Failure),
}

/// One request.
pub(crate) struct Job {
    pub id: Id,
    pub bytes: usize,
    pub cancel: Cancel,
    /// Does the work or reports the refusal.
    pub finish: Box<dyn FnOnce(Fate) + Send>,
}

impl Job {
    fn refuse(self, code: ErrorCode, message: &str) {
        (self.finish)(Fate::Refuse(Failure::new(code, message)));
    }
}

/// The queues and the workers.
pub(crate) struct Schedule {
    state: Mutex<State>,
    /// Something became runnable, or stopped running, or everything is to stop.
    change: Condvar,
    limits: Limits,
}

#[derive(Default)]
struct State {
    clients: VecDeque<Client>,
    waiting_bytes: usize,
    last_number: u64,
    stopping: bool,
}

struct Client {
    number: u64,
    backlog: Arc<Backlog>,
    waiting: VecDeque<Job>,
    running: Vec<Running>,
    /// Workers it holds at most.
    share: usize,
}

struct Running {
    number: u64,
    id: Id,
    cancel: Cancel,
}

impl Client {
    fn can_run(&self) -> bool {
        !self.waiting.is_empty() && self.running.len() < self.share && !self.backlog.is_full()
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn client(&mut self, number: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.number == number)
    }

    /// Takes the next job and moves its client behind the others.
    fn start_next(&mut self) -> Option<(u64, u64, Job)> {
        let runnable = self.clients.iter().enumerate().filter(|(_, client)| client.can_run());
        let (place, _) = runnable.min_by_key(|(_, client)| client.running.len())?;
        let job = self.clients.get_mut(place)?.waiting.pop_front()?;
        let mut client = self.clients.remove(place)?;
        let number = self.next_number();
        let (id, cancel) = (job.id.clone(), job.cancel.clone());
        client.running.push(Running { number, id, cancel });
        self.waiting_bytes -= job.bytes;
        let client_number = client.number;
        self.clients.push_back(client);
        Some((client_number, number, job))
    }

    fn nothing_runs(&self) -> bool {
        self.clients.iter().all(|client| client.running.is_empty())
    }
}

impl Schedule {
    /// Without workers yet.
    pub fn new(limits: &Limits) -> Arc<Schedule> {
        Arc::new(Schedule {
            state: Mutex::default(),
            change: Condvar::new(),
            limits: limits.clone(),
        })
    }

    /// Starts the workers. They end after [`Schedule::stop`], each when it is done with what it runs.
    pub fn start_workers(self: &Arc<Schedule>) -> io::Result<()> {
        for number in 0..self.limits.workers.max(1) {
            let schedule = self.clone();
            thread::Builder::new()
                .name(format!("question-{number}"))
                .stack_size(WORKER_STACK)
                .spawn(move || schedule.work())?;
        }
        Ok(())
    }

    /// A queue for a new client.
    pub fn join(self: &Arc<Schedule>, backlog: Arc<Backlog>) -> Membership {
        let mut state = self.lock();
        let number = state.next_number();
        state.clients.push_back(Client {
            number,
            backlog,
            waiting: VecDeque::new(),
            running: Vec::new(),
            share: self.limits.workers_of_a_client(),
        });
        Membership { schedule: self.clone(), number }
    }

    /// To be called when a client has fetched answers.
    pub fn look_again(&self) {
        // The lock orders this after the look of a worker that is about to wait.
        let _state = self.lock();
        self.change.notify_all();
    }

    /// Refuses what waits and what comes, asks what runs to give up.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        state.waiting_bytes = 0;
        let mut refused = Vec::new();
        for client in &mut state.clients {
            refused.extend(client.waiting.drain(..));
            client.running.iter().for_each(|running| running.cancel.cancel());
        }
        drop(state);
        self.change.notify_all();
        refused.into_iter().for_each(refuse_stopping);
    }

    /// Waits until nothing runs. Says whether that happened in time.
    pub fn wait_until_idle(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        while !state.nothing_runs() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            state = match self.change.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.stopping {
            match state.start_next() {
                Some((client, number, job)) => {
                    drop(state);
                    (job.finish)(Fate::Run);
                    state = self.lock();
                    if let Some(client) = state.client(client) {
                        client.running.retain(|running| running.number != number);
                    }
                    // The client may now use another worker; or somebody waits for the end.
                    self.change.notify_all();
                }
                None => {
                    state = self.change.wait(state).unwrap_or_else(|poison| poison.into_inner());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A client's place in the schedule. Dropping it cancels all that the client has outstanding.
pub(crate) struct Membership {
    schedule: Arc<Schedule>,
    number: u64,
}

impl Membership {
    /// Queues jobs, refusing those that are too many.
    pub fn submit(&self, jobs: Vec<Job>) {
        let limits = &self.schedule.limits;
        let mut refused = Vec::new();
        let mut state = self.schedule.lock();
        let stopping = state.stopping;
        let mut waiting_bytes = state.waiting_bytes;
        for job in jobs {
            let Some(client) = state.client(self.number) else { return };
            let outstanding = client.waiting.len() + client.running.len();
            let too_many = outstanding >= limits.outstanding;
            if stopping || too_many || waiting_bytes + job.bytes > limits.waiting_bytes {
                refused.push(job);
            } else {
                waiting_bytes += job.bytes;
                client.waiting.push_back(job);
            }
        }
        state.waiting_bytes = waiting_bytes;
        drop(state);
        self.schedule.change.notify_all();
        for job in refused {
            if stopping {
                refuse_stopping(job);
            } else {
                job.refuse(ErrorCode::Busy, ErrorCode::Busy.meaning());
            }
        }
    }

    /// Cancels all requests with an id.
    pub fn cancel(&self, id: &Id) {
        let mut state = self.schedule.lock();
        let Some(client) = state.client(self.number) else { return };
        for running in client.running.iter().filter(|running| running.id == *id) {
            running.cancel.cancel();
        }
        let (cancelled, waiting): (VecDeque<Job>, VecDeque<Job>) =
            client.waiting.drain(..).partition(|job| job.id == *id);
        client.waiting = waiting;
        state.waiting_bytes -= cancelled.iter().map(|job| job.bytes).sum::<usize>();
        drop(state);
        for job in cancelled {
            job.refuse(ErrorCode::Cancelled, "the request was cancelled");
        }
    }

    /// To be called when the client has fetched answers.
    pub fn look_again(&self) {
        self.schedule.look_again();
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.schedule.lock();
        let Some(place) = state.clients.iter().position(|client| client.number == self.number)
        else {
            return;
        };
        let Some(client) = state.clients.remove(place) else { return };
        state.waiting_bytes -= client.waiting.iter().map(|job| job.bytes).sum::<usize>();
        drop(state);
        client.running.iter().for_each(|running| running.cancel.cancel());
    }
}

fn refuse_stopping(job: Job) {
    job.refuse(ErrorCode::ShuttingDown, "the server stops");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Outbox;

    fn job(id: &str) -> Job {
        let finish = Box::new(|_| {});
        Job { id: Id::String(id.to_owned()), bytes: 1, cancel: Cancel::default(), finish }
    }

    fn jobs(ids: &[&str]) -> Vec<Job> {
        ids.iter().map(|id| job(id)).collect()
    }

    /// Starts jobs as free workers would.
    fn start(schedule: &Schedule, count: usize) -> Vec<(u64, u64, String)> {
        let mut state = schedule.lock();
        let started = (0..count).map_while(|_| state.start_next());
        let name = |id: Id| serde_json::to_value(id).unwrap().as_str().unwrap().to_owned();
        started.map(|(client, number, job)| (client, number, name(job.id))).collect()
    }

    fn names(started: &[(u64, u64, String)]) -> Vec<&str> {
        started.iter().map(|(_, _, name)| name.as_str()).collect()
    }

    #[test]
    fn who_holds_the_fewest_workers_is_next_and_equals_take_turns() {
        let schedule = Schedule::new(&Limits { workers: 8, ..Limits::default() });
        let join = || schedule.join(Outbox::new(100).0.backlog().clone());
        let (first, second, third) = (join(), join(), join());
        first.submit(jobs(&["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"]));
        assert_eq!(names(&start(&schedule, 3)), ["a1", "a2", "a3"]);
        second.submit(jobs(&["b1", "b2", "b3", "b4"]));
        third.submit(jobs(&["c1", "c2"]));
        // The others catch up, in turn, before the first goes on; none gets more than six of eight.
        let rest = start(&schedule, 100);
        let expected = ["b1", "c1", "b2", "c2", "b3", "a4", "b4", "a5", "a6"];
        assert_eq!(names(&rest), expected);
        let state = schedule.lock();
        assert_eq!(state.waiting_bytes, 2);
        drop(state);
        drop(first);
        assert_eq!(schedule.lock().waiting_bytes, 0);
    }

    #[test]
    fn cancelled_jobs_leave_the_queue_and_their_bytes() {
        let schedule = Schedule::new(&Limits::default());
        let client = schedule.join(Outbox::new(100).0.backlog().clone());
        client.submit(jobs(&["x", "y", "x"]));
        client.cancel(&Id::String("x".to_owned()));
        assert_eq!(schedule.lock().waiting_bytes, 1);
        assert_eq!(names(&start(&schedule, 3)), ["y"]);
    }
}
