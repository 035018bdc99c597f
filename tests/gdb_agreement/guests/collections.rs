//! Collections, traits, closures, enums and a panic that is caught.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Circle { radius: f64 },
    Rectangle(f64, f64),
    Named(String, Option<Box<Shape>>),
    Nothing,
}

trait Measured {
    fn area(&self) -> f64;
}

impl Measured for Shape {
    fn area(&self) -> f64 {
        match self {
            Shape::Circle { radius } => 3.0 * radius * radius,
            Shape::Rectangle(width, height) => width * height,
            Shape::Named(_, inner) => inner.as_ref().map_or(0.5, |shape| shape.area()),
            Shape::Nothing => 0.0,
        }
    }
}

struct Entry {
    key: u32,
    name: String,
    shapes: Vec<Rc<Shape>>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} ({})", self.key, self.name, self.shapes.len())
    }
}

#[inline(never)]
fn shape(number: u32) -> Shape {
    match number % 4 {
        0 => Shape::Circle { radius: f64::from(number) / 2.0 },
        1 => Shape::Rectangle(f64::from(number), 2.5),
        2 => Shape::Named(format!("shape {number}"), (number > 9).then(|| Box::new(shape(number / 2)))),
        _ => Shape::Nothing,
    }
}

#[inline(never)]
fn total(entries: &[Entry]) -> f64 {
    let mut sum = 0.0;
    for entry in entries {
        let part: f64 = entry.shapes.iter().map(|shape| shape.area()).sum();
        sum += part / (1.0 + f64::from(entry.key % 3));
    }
    sum
}

#[inline(never)]
fn checked(entry: &Entry) -> Result<usize, String> {
    if entry.key % 5 == 4 {
        return Err(format!("refused {entry}"));
    }
    entry.shapes.get(entry.key as usize % 3).map(|shape| Rc::strong_count(shape)).ok_or_else(String::new)
}

fn main() {
    let mut by_name: HashMap<String, u64> = HashMap::new();
    let mut by_area: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    let mut queue: VecDeque<Entry> = VecDeque::new();
    for key in 0..60u32 {
        let shapes: Vec<Rc<Shape>> = (0..key % 4).map(|n| Rc::new(shape(key + n))).collect();
        let entry = Entry { key, name: format!("entry {}", key * 7919 % 17), shapes };
        *by_name.entry(entry.name.clone()).or_default() += u64::from(key);
        by_area.entry(total(std::slice::from_ref(&entry)) as u64).or_default().push(key);
        queue.push_back(entry);
        if queue.len() > 20 {
            queue.pop_front();
        }
    }
    let mut entries: Vec<Entry> = queue.into_iter().collect();
    entries.sort_by(|one, other| one.name.cmp(&other.name).then(other.key.cmp(&one.key)));
    let results: Vec<Result<usize, String>> = entries.iter().map(checked).collect();
    let refused = results.iter().filter(|result| result.is_err()).count();
    let caught = std::panic::catch_unwind(|| {
        let numbers = [1, 2, 3];
        let index = std::hint::black_box(7);
        numbers[index % 4]
    });
    let joined: Vec<String> = entries.iter().map(ToString::to_string).collect();
    println!(
        "{} {} {:.2} {refused} {} {}",
        by_name.len(),
        by_area.len(),
        total(&entries),
        caught.is_err(),
        joined.join(", ").len()
    );
}
