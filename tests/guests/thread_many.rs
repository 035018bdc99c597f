// A Rust program with many threads: scoped threads, channels, locks, panics that are caught, and
// thread-locals with destructors.
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock, mpsc};
use std::thread;

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Counter(usize);

impl Drop for Counter {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0, Ordering::SeqCst);
    }
}

thread_local! {
    static LOCAL: RefCell<Counter> = const { RefCell::new(Counter(0)) };
}

fn main() {
    // Panics are expected here; their messages name threads and would only be noise.
    std::panic::set_hook(Box::new(|_| {}));

    let (sender, receiver) = mpsc::sync_channel::<(usize, u64)>(4);
    let workers: Vec<_> = (0..16)
        .map(|worker| {
            let sender = sender.clone();
            thread::Builder::new()
                .name(format!("worker-{worker}"))
                .stack_size(256 * 1024)
                .spawn(move || {
                    LOCAL.with(|local| local.borrow_mut().0 += worker);
                    for i in 0..50u64 {
                        sender.send((worker, i * i)).unwrap();
                    }
                    assert!(worker % 5 != 4, "every fifth worker fails");
                    thread::current().name().unwrap().len()
                })
                .unwrap()
        })
        .collect();
    drop(sender);
    let mut sums = HashMap::<usize, u64>::new();
    for (worker, value) in receiver {
        *sums.entry(worker).or_default() += value;
    }
    let (mut ended, mut panicked) = (0, 0);
    for worker in workers {
        match worker.join() {
            Ok(length) => ended += length,
            Err(_) => panicked += 1,
        }
    }
    assert_eq!(sums.len(), 16);
    assert!(sums.values().all(|&sum| sum == 40425));
    println!("name lengths {ended}, panicked {panicked}, dropped {}", DROPPED.load(Ordering::SeqCst));

    let data = RwLock::new(vec![0u32; 100]);
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for part in 0..8 {
            let (data, barrier) = (&data, &barrier);
            scope.spawn(move || {
                for round in 0..20 {
                    barrier.wait();
                    data.write().unwrap()[part * 10 + round % 10] += 1;
                    assert!(data.read().unwrap().iter().sum::<u32>() > 0);
                }
            });
        }
    });
    println!("sum {}", data.read().unwrap().iter().sum::<u32>());

    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let other = Arc::clone(&pair);
    let turns = thread::spawn(move || {
        for turn in 0..200 {
            let mut state = other.1.wait_while(other.0.lock().unwrap(), |state| *state != turn * 2).unwrap();
            *state += 1;
            other.1.notify_all();
        }
    });
    for turn in 0..200 {
        let mut state = pair.1.wait_while(pair.0.lock().unwrap(), |state| *state != turn * 2 + 1).unwrap();
        *state += 1;
        pair.1.notify_all();
    }
    turns.join().unwrap();
    println!("turns {}", pair.0.lock().unwrap());
}
