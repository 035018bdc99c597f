use std::hint::black_box;

extern "C" fn handler(number: i32) {
    black_box(twice(number as u64));
}

unsafe extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn raise(number: i32) -> i32;
}

struct Point {
    x: u64,
    y: u64,
}

impl Point {
    #[inline(never)]
    fn length(&self) -> u64 {
        twice(self.x) + self.scaled(self.y)
    }

    #[inline(always)]
    fn scaled(&self, by: u64) -> u64 {
        black_box(by) * twice(self.x)
    }
}

#[inline(always)]
fn twice(x: u64) -> u64 {
    black_box(x) * 2
}

#[inline(never)]
fn recursive(depth: u64) -> u64 {
    if depth == 0 {
        return Point { x: black_box(3), y: 4 }.length();
    }
    black_box(recursive(depth - 1)) + 1
}

#[inline(never)]
fn sum<T: Copy + Into<u64>>(all: &[T]) -> u64 {
    all.iter().map(|one| twice((*one).into())).filter(|one| one % 2 == 0).sum()
}

fn main() {
    let count = std::env::args().count() as u64;
    black_box(recursive(count + 2));
    unsafe {
        signal(10, handler);
        raise(10);
    }
    black_box(sum(&[1u32, 2, 3, count as u32]));
    let mut numbers: Vec<u64> = (0..count + 3).map(|x| x * 7 % 5).collect();
    numbers.sort_by_key(|x| twice(*x));
    black_box(numbers);
}
