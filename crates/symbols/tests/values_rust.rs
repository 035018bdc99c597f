//! Values of Rust programs. gdb has its own way of showing them, so that answers are given here.

mod scene;
mod values_inferior;

use std::fs;

use retro_symbols::{FormatOptions, TreeOptions};
use scene::Scene;
use values_inferior::{Inferior, line_of};

const SOURCE: &str = r#"
#![allow(dead_code, unused_variables)]
#[derive(Clone, Copy)]
struct Point { x: i32, y: i32 }
struct Wrapper(u64, char);
struct Unit;
enum Shape { Circle { radius: f64 }, Square(u32, u32), Nothing }
enum Plain { First, Second = 7 }
enum Single { Only(u8) }
union Both { int: u32, float: f32 }
#[derive(Clone, Copy)]
enum Bit { First = 1, Second = 2, Third = 4 }
union Odd { number: u8, bit: Bit }
#[derive(Clone, Copy)]
#[repr(u64)]
enum Level { Low = 1, Middle = 2, Top = 1 << 63 }
union High { number: u64, level: Level }
struct Holder<F> { number: u32, call: F }
static COUNTER: u64 = 41;
mod inner { pub static mut LEVEL: i32 = -3; pub struct Deep { pub value: u16 } }

impl Point {
    fn sum(&self, more: i32) -> i32 {
        let local = self.x + more;
        local + self.y // METHOD
    }
}

#[inline(never)]
fn keep<T>(value: &T) { std::hint::black_box(value); }

fn main() {
    let number = -5i32; let big = 1u128 << 100; let byte = 200u8; let truth = true; let letter = 'ß'; let float = 1.5f32;
    let point = Point { x: 1, y: 2 }; let wrapper = Wrapper(9, 'a'); let unit = Unit; let tuple = (1u8, "two", 3.5f64); let nothing = ();
    let circle = Shape::Circle { radius: 2.5 }; let square = Shape::Square(3, 4); let none_shape = Shape::Nothing;
    let plain = Plain::Second; let single = Single::Only(4);
    let some = Some(5i32); let none: Option<i32> = None; let some_box = Some(Box::new(7u16)); let no_box: Option<Box<u16>> = None;
    let result: Result<u8, String> = Err("bad".to_string()); let fine: Result<u8, String> = Ok(3); let some_text = Some("text");
    let text = "a \"quoted\" text"; let owned = String::from("owned"); let empty = String::new(); let vector = vec![1u32, 2, 3];
    let points = vec![point; 2]; let texts = vec!["one".to_string(), "two".to_string()]; let slice = &vector[1..]; let array = [1i16, -2, 3]; let zeroes = [0u8; 64];
    let boxed = Box::new(point); let reference = &point; let double = &reference; let boxed_slice: Box<[u8]> = vec![1, 2].into_boxed_slice(); let boxed_str: Box<str> = "boxed".into();
    let nested = Some(Some(false)); let pair = Some((1u8, 2u16)); let both = Both { int: 0x3fc00000 }; let deep = inner::Deep { value: 12 };
    let pointer = &number as *const i32; let function = keep::<i32> as fn(&i32); let char_array = ['x', 'y']; let nan = f64::NAN;
    let odd = Odd { number: 6 }; let high = High { number: 3 }; let holder = &Holder { number: 8, call: keep::<i32> }; let wrapping: &[std::num::Wrapping<u8>] = &[std::num::Wrapping(7)];
    let sum = point.sum(10);
    keep(&COUNTER); unsafe { inner::LEVEL += 1; }
    for value in [&number] { keep(value); }
    keep(&(&big, &byte, &truth, &letter, &float, &wrapper, &unit, &tuple, &nothing, &circle, &square, &none_shape)); // STOP
    keep(&(&plain, &single, &some, &none, &some_box, &no_box, &result, &fine, &some_text, &text, &owned, &empty));
    keep(&(&points, &texts, &slice, &array, &zeroes, &boxed, &reference, &double, &boxed_slice, &boxed_str, &nested, &pair));
    keep(&(&deep, &pointer, &function, &char_array, &nan, &sum)); keep(unsafe { &both.int });
    keep(unsafe { &odd.number }); keep(unsafe { &high.number }); keep(&(&holder, &wrapping));
}
"#;

fn compile(scene: &Scene, options: &[&str]) {
    fs::write(scene.path("values.rs"), SOURCE).unwrap();
    let mut command = vec!["rustc", "-g", "--edition", "2021", "-o", "values", "values.rs"];
    command.extend(options);
    scene.run(&command);
}

const ANSWERS: &[(&str, &str)] = &[
    ("number", "-5"),
    ("big", "1267650600228229401496703205376"),
    ("byte", "200"),
    ("truth", "true"),
    ("letter", "223 'ß'"),
    ("float", "1.5"),
    ("point", "Point {x: 1, y: 2}"),
    ("wrapper", "Wrapper(9, 97 'a')"),
    ("unit", "Unit"),
    ("tuple", "(1, \"two\", 3.5)"),
    ("nothing", "()"),
    ("circle", "Circle {radius: 2.5}"),
    ("square", "Square(3, 4)"),
    ("none_shape", "Nothing"),
    ("plain", "values::Plain::Second"),
    ("single", "Only(4)"),
    ("some", "Some(5)"),
    ("none", "None"),
    ("some_box", "Some(Box(7))"),
    ("no_box", "None"),
    ("result", "Err(\"bad\")"),
    ("fine", "Ok(3)"),
    ("some_text", "Some(\"text\")"),
    ("text", "\"a \\\"quoted\\\" text\""),
    ("owned", "\"owned\""),
    ("empty", "\"\""),
    ("vector", "[1, 2, 3]"),
    ("points", "[Point {x: 1, y: 2}, Point {x: 1, y: 2}]"),
    ("texts", "[\"one\", \"two\"]"),
    ("slice", "[2, 3]"),
    ("array", "[1, -2, 3]"),
    ("zeroes", "[0 <repeats 64 times>]"),
    ("boxed", "Box(Point {x: 1, y: 2})"),
    ("boxed_slice", "[1, 2]"),
    ("boxed_str", "\"boxed\""),
    ("nested", "Some(Some(false))"),
    ("pair", "Some((1, 2))"),
    ("both", "Both {int: 1069547520, float: 1.5}"),
    ("odd", "Odd {number: 6, bit: (values::Bit::Second | values::Bit::Third)}"),
    // The enumerators are no flags if one takes the bit of the sign, as for gdb.
    ("high", "High {number: 3, level: 3}"),
    // A function takes no room, whatever rustc says.
    ("*holder", "Holder {number: 8, call: <optimized out>}"),
    ("wrapping", "[Wrapping(7)]"),
    ("deep", "Deep {value: 12}"),
    ("char_array", "[120 'x', 121 'y']"),
    ("nan", "nan(0x8000000000000)"),
    ("sum", "13"),
    ("*reference", "Point {x: 1, y: 2}"),
    ("reference.x", "1"),
    ("double.y", "2"),
    ("boxed.x", "1"),
    ("tuple.0", "1"),
    ("tuple.2", "3.5"),
    ("tuple.1 == \"two\"", "true"),
    ("wrapper.0 + 1", "10"),
    ("circle.radius", "2.5"),
    ("square.1", "4"),
    ("vector[1]", "2"),
    ("slice[0]", "2"),
    ("points[1].y", "2"),
    ("texts[1] == \"two\"", "true"),
    ("array[1]", "-2"),
    ("*pointer", "-5"),
    ("byte as u32 + 100", "300"),
    ("number as i64", "-5"),
    ("number as u8", "251"),
    ("COUNTER", "41"),
    ("values::COUNTER", "41"),
    ("inner::LEVEL", "-2"),
    ("values::inner::LEVEL", "-2"),
    ("sizeof(values::Point)", "8"),
    ("1u8 + 255u8", "256"),
    ("some.0", "5"),
];

#[test]
fn values_look_like_rust() {
    let scene = Scene::new();
    compile(&scene, &[]);
    let place = line_of("values.rs", SOURCE, "STOP");
    let inferior = Inferior::stop(&scene, &scene.path("values"), &place, 0, &[]);
    let wrong: Vec<String> = (ANSWERS.iter())
        .map(|(question, answer)| (question, answer, inferior.print(question)))
        .filter(|(_, answer, ours)| ours.as_ref().map(String::as_str) != Ok(**answer))
        .map(|(question, answer, ours)| format!("{question}: {answer}, not {ours:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let wrapping = inferior.print("/r wrapping").unwrap();
    assert!(wrapping.starts_with("&[core::num::wrapping::Wrapping] {data_ptr: 0x"), "{wrapping}");
    let address = inferior.moment.registers[&7];
    assert!(inferior.print("pointer").unwrap().starts_with("(*const i32) 0x"), "{address}");
}

#[test]
fn methods_have_self() {
    let scene = Scene::new();
    compile(&scene, &["-Cdwarf-version=5"]);
    let place = line_of("values.rs", SOURCE, "METHOD");
    let inferior = Inferior::stop(&scene, &scene.path("values"), &place, 0, &[]);
    for (question, answer) in
        [("self.x", "1"), ("*self", "Point {x: 1, y: 2}"), ("more", "10"), ("local", "11")]
    {
        assert_eq!(inferior.print(question).unwrap(), answer, "{question}");
    }
}

#[test]
fn trees_unfold() {
    let scene = Scene::new();
    compile(&scene, &[]);
    let place = line_of("values.rs", SOURCE, "STOP");
    let inferior = Inferior::stop(&scene, &scene.path("values"), &place, 0, &[]);
    let frame = inferior.frame();
    let scope = inferior.symbols.scope(&frame);
    let tree = |text: &str, levels| {
        let value = inferior.symbols.evaluate(&frame, text).unwrap();
        value.tree(text, &scope, &TreeOptions { levels, ..TreeOptions::default() })
    };
    let points = tree("points", 2);
    assert_eq!((points.child_count, points.children.len()), (2, 2));
    assert_eq!(points.children[1].name, "[1]");
    assert_eq!(points.children[1].children[1].name, "y");
    assert_eq!(points.children[1].children[1].text, "2");
    assert_eq!(&*points.children[1].type_name, "values::Point");
    let first = points.children[0].address.unwrap();
    assert_eq!(points.children[1].address, Some(first + 8));
    assert_eq!(tree("some", 1).children[0].text, "5");
    assert_eq!(tree("reference", 1).children[0].name, "*");
    assert_eq!(tree("zeroes", 1).children.len(), 64);
    assert_eq!(tree("number", 3).children.len(), 0);
    let shown = inferior.symbols.evaluate(&frame, "points").unwrap();
    let raw = shown.format(&scope, &FormatOptions { raw: true, ..FormatOptions::default() });
    assert!(raw.contains("len: 2"), "{raw}");
}
