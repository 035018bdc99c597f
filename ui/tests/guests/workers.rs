// Threads with names that add to a shared account, one after the other holding its lock.
use std::sync::{Arc, Mutex};
use std::thread;

struct Account {
    owner: String,
    balance: i64,
}

#[inline(never)]
fn deposit(account: &Mutex<Account>, amount: i64) -> i64 {
    let mut held = account.lock().unwrap();
    held.balance += amount;
    held.balance
}

fn main() {
    let account = Arc::new(Mutex::new(Account { owner: "Ada".to_string(), balance: 0 }));
    let workers: Vec<_> = (1..=3)
        .map(|number| {
            let account = Arc::clone(&account);
            let builder = thread::Builder::new().name(format!("worker-{number}"));
            builder.spawn(move || (0..20).map(|step| deposit(&account, number * step)).max()).unwrap()
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let held = account.lock().unwrap();
    println!("{} has {}", held.owner, held.balance);
}
