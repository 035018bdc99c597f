//! Many threads that must agree on every number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::Duration;

fn main() {
    let counter = AtomicU64::new(0);
    thread::scope(|scope| {
        for t in 0..100 {
            let counter = &counter;
            scope.spawn(move || {
                for i in 0..1000 {
                    counter.fetch_add(i * t, Ordering::Relaxed);
                }
            });
        }
    });
    println!("atomics {}", counter.into_inner());

    let (sender, receiver) = mpsc::channel();
    for t in 0..20u64 {
        let sender = sender.clone();
        thread::spawn(move || (0..500u64).for_each(|i| sender.send(t * i).unwrap()));
    }
    drop(sender);
    println!("channel {}", receiver.iter().sum::<u64>());

    let map = Arc::new(RwLock::new(HashMap::new()));
    let barrier = Arc::new(Barrier::new(16));
    let workers: Vec<_> = (0..16)
        .map(|t| {
            let (map, barrier) = (map.clone(), barrier.clone());
            thread::spawn(move || {
                barrier.wait();
                for i in 0..200 {
                    *map.write().unwrap().entry(i % 50).or_insert(0u64) += t;
                    let _ = map.read().unwrap().len();
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    println!("map {}", map.read().unwrap().values().sum::<u64>());

    let turn = Arc::new((Mutex::new(0usize), Condvar::new()));
    let players: Vec<_> = (0..4)
        .map(|me| {
            let turn = turn.clone();
            thread::spawn(move || {
                for _ in 0..250 {
                    let mut now = turn.0.lock().unwrap();
                    while *now % 4 != me {
                        now = turn.1.wait(now).unwrap();
                    }
                    *now += 1;
                    turn.1.notify_all();
                }
            })
        })
        .collect();
    players.into_iter().for_each(|player| player.join().unwrap());
    println!("turns {}", turn.0.lock().unwrap());

    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct CountDrop;
    impl Drop for CountDrop {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local!(static LOCAL: CountDrop = const { CountDrop });
    let mut panics = 0;
    for i in 0..50 {
        let thread = thread::spawn(move || {
            LOCAL.with(|_| ());
            let _held = CountDrop;
            assert!(i % 5 != 0, "every fifth");
        });
        panics += thread.join().is_err() as u32;
    }
    println!("panics {panics} drops {}", DROPS.load(Ordering::SeqCst));

    static ONCE: OnceLock<u32> = OnceLock::new();
    let values: Vec<u32> =
        (0..8).map(|_| thread::spawn(|| *ONCE.get_or_init(|| 42)).join().unwrap()).collect();
    let sleeper = thread::spawn(|| thread::park_timeout(Duration::from_secs(60)));
    thread::sleep(Duration::from_millis(20));
    sleeper.thread().unpark();
    sleeper.join().unwrap();
    println!("once {values:?}");

    // Ends with threads still running, in a loop and in a system call.
    for i in 0..6 {
        thread::spawn(move || loop {
            if i % 2 == 0 { thread::sleep(Duration::from_secs(60)) } else { std::hint::spin_loop() }
        });
    }
    std::process::exit(0);
}
