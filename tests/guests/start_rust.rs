// A Rust program: panics caught and not, collections, formatting, processes, and its exit code.
// exit: 101
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::process::Command;

fn parse(text: &str) -> Result<Vec<i64>, std::num::ParseIntError> {
    text.split(',').map(|part| part.trim().parse()).collect()
}

fn main() {
    // The usual message has the thread's number in it.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("panicked at line {}", info.location().unwrap().line());
    }));
    let numbers = parse("5, -3, 12, 7").unwrap();
    println!("{numbers:?} {}", numbers.iter().sum::<i64>());
    println!("{:?}", parse("1,x").map_err(|error| error.to_string()));

    let mut words = BTreeMap::<&str, usize>::new();
    for word in "the cat and the dog and the bird".split(' ') {
        *words.entry(word).or_default() += 1;
    }
    println!("{words:?}");
    let squares: HashMap<u32, u32> = (0..1000).map(|n| (n, n * n)).collect();
    println!("{}", (0..1000).map(|n| u64::from(squares[&n])).sum::<u64>());
    let mut queue: VecDeque<u32> = (0..10).collect();
    queue.rotate_left(3);
    let mut text = String::new();
    for number in queue {
        write!(text, "{number:>3}").unwrap();
    }
    println!("{text}");

    let caught = std::panic::catch_unwind(|| {
        let empty: Vec<u8> = Vec::new();
        empty[std::hint::black_box(3)]
    });
    println!("caught {}", caught.is_err());
    let output = Command::new("sh").args(["-c", "echo child; exit 3"]).output().unwrap();
    println!("{:?} {:?}", String::from_utf8(output.stdout).unwrap(), output.status.code());
    let failed = Command::new("/does/not/exist").spawn();
    println!("{}", failed.unwrap_err().kind());
    panic!("the end of the test");
}
