//! Damaged debug information costs values and nothing else.

mod scene;

use std::fs;
use std::time::{Duration, Instant};

use object::{Object, ObjectSection};
use retro_abi::channel::Stream;
use retro_symbols::{
    CallSite, EntryRegisters, FormatOptions, FrameContext, Machine, Symbols, TreeOptions,
};
use scene::{Chunk, Program, Scene};

const BASE: u64 = 0x1000_0000;

const SOURCE: &str = r#"
#include <memory>
#include <string>
#include <vector>
struct Base { virtual ~Base() {} int b; }; struct Other : virtual Base { long o : 7; };
enum class Color { Red, Green }; union Both { int i; float f; };
struct List { List *next; int values[4]; Color color; static int count; Both both; }; int List::count = 3;
static thread_local int own = 3; volatile int sink; int table[5][4];
template <typename T> struct Pair { T first, second; };
__attribute__((noinline)) int leaf(int x, const List *list) { sink += x; return x + list->values[1]; }
static inline int inlined(int y) { int z = y * y; sink += z; return z; }
__attribute__((noinline)) int work(int a, double d, const std::string &text, std::vector<int> numbers, List *list, Other &other) {
    int local = a * 2; int vla[a + 1]; vla[a] = local; Pair<Pair<int>> pairs = {{a, 2}, {3, local}}; auto owner = std::make_unique<int>(a);
    int total = inlined(local) + leaf(a, list) + vla[a] + (int)d + numbers[0] + pairs.second.second + *owner + own;
    { long inner = total; sink += inner; total += leaf(total, list); }
    return total + other.b + text.size();
}
int main(int argc, char **) { List list{}; Other other; return work(argc, 2.5, "text", {1, 2}, &list, other); }
"#;

const QUESTIONS: &[&str] = &[
    "a",
    "text",
    "numbers",
    "*list",
    "list->next->next->values",
    "other",
    "vla",
    "pairs.first",
    "owner",
    "*owner",
    "local",
    "List::count",
    "table",
    "own",
    "Color::Green",
    "sizeof(List)",
    "(Other *) list",
    "*(List *) 4096",
    "work",
    "inner",
    "numbers[1]",
    "sizeof(Pair<int>)",
    "work::local",
    "z",
    "y",
];

/// Memory that is everywhere and holds something like addresses and small numbers.
struct Anything;

impl Machine for Anything {
    fn register(&self, number: u16) -> Option<u64> {
        Some(u64::from(number) * 0x1_0008 + 0x7f00_0000_0000)
    }

    fn vector(&self, number: u16) -> Option<[u8; 16]> {
        Some([number as u8; 16])
    }

    fn fs_base(&self) -> Option<u64> {
        Some(0x7fff_0000)
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        for (index, byte) in buffer.iter_mut().enumerate() {
            let at = address.wrapping_add(index as u64);
            *byte = match at % 16 {
                0 => (at >> 4) as u8,
                1..4 => 0x7f,
                8 => (at >> 5) as u8 & 7,
                _ => 0,
            };
        }
        address >> 12 & 15 != 9
    }
}

impl EntryRegisters for Anything {
    fn entry_register(&self, number: u16) -> Option<u64> {
        self.register(number)
    }
}

fn look_at(scene: &Scene, round: usize, bytes: &[u8], whole: &Program, addresses: &[u64]) {
    fs::write(scene.path("damaged"), bytes).unwrap();
    let damaged = Program { build_id: Vec::new(), ..Program::at(&scene.path("damaged")) };
    let files =
        Chunk { log: 0, stream: Stream::Code, base_time: 0, events: vec![(0, damaged.event(0))] };
    let maps = whole.maps(BASE, 1).into_iter().map(|event| (0, event)).collect();
    let main = Chunk { log: 0, stream: Stream::Main, base_time: 0, events: maps };
    let name = format!("run-{round}");
    let symbols = Symbols::new(scene.record(&name, &[files, main]));
    let options = FormatOptions { elements: 20, ..FormatOptions::default() };
    let tree = TreeOptions { levels: 2, children: 5, nodes: 200, ..TreeOptions::default() };
    for address in addresses {
        let machine: &dyn Machine = &Anything;
        let frame = FrameContext {
            log: 0,
            time: 1,
            pc: BASE + address,
            machine,
            cfa: Some(0x7fff_fff0),
            entry: &Anything,
            level: None,
        };
        let scope = symbols.scope(&frame);
        for variable in scope.locals().into_iter().chain(symbols.arguments(&frame)) {
            let _ = variable.value.format(&scope, &options);
            let _ = variable.value.format(&scope, &FormatOptions { raw: true, ..options.clone() });
            let _ = variable.value.tree(&variable.name, &scope, &tree);
        }
        for question in QUESTIONS {
            if let Ok(value) = symbols.evaluate(&frame, question) {
                let _ = value.format(&scope, &options);
            }
        }
        let _ = CallSite::new(&symbols, &frame, BASE + address).entry_register(5);
    }
    fs::remove_dir_all(scene.path(&name)).unwrap();
}

/// Numbers that repeat from run to run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[track_caller]
fn check_time(round: usize, begin: Instant) {
    let elapsed = begin.elapsed();
    assert!(elapsed < Duration::from_secs(20), "round {round} took {elapsed:?}");
}

fn check(seed: u64, rounds: usize, options: &[&str]) {
    let scene = Scene::new();
    let whole = scene.compile("whole.cpp", SOURCE, &[&["-std=c++20", "-w"], options].concat());
    let bytes = fs::read(&whole.path).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let work = elf.symbols_named("work").unwrap();
    let addresses = [work, work + 40, work + 120];
    let sections: Vec<(usize, usize)> = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_loclists",
        ".debug_loc",
        ".debug_rnglists",
        ".debug_str",
    ]
    .iter()
    .filter_map(|name| elf.section_by_name(name)?.file_range())
    .map(|(start, size)| (start as usize, size as usize))
    .collect();
    assert!(sections.len() >= 3);
    look_at(&scene, 0, &bytes, &whole, &addresses);
    let mut dice = Dice(seed);
    for round in 1..=rounds {
        let mut damaged = bytes.clone();
        for _ in 0..[1, 4, 16, 200][dice.below(4)] {
            // The first ones hold the most structure.
            let (start, size) =
                sections[dice.below(sections.len()).min(dice.below(sections.len()))];
            let at = start + dice.below(size);
            damaged[at] = match dice.below(4) {
                0 => 0xff,
                1 => 0,
                2 => damaged[at] ^ 1 << dice.below(8),
                _ => dice.below(256) as u8,
            };
        }
        let begin = Instant::now();
        look_at(&scene, round, &damaged, &whole, &addresses);
        check_time(round, begin);
    }
}

/// References of four bytes within a unit, all pointed to a few entries: types that hold themselves, in every way.
fn check_circles(options: &[&str]) {
    let scene = Scene::new();
    let whole = scene.compile("whole.cpp", SOURCE, &[&["-std=c++20", "-w"], options].concat());
    let bytes = fs::read(&whole.path).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let work = elf.symbols_named("work").unwrap();
    let (start, size) = elf.section_by_name(".debug_info").unwrap().file_range().unwrap();
    let dwarf = gimli::Dwarf::load(|id| -> Result<_, gimli::Error> {
        let data = elf.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok(gimli::EndianSlice::new(data.unwrap_or_default(), gimli::LittleEndian))
    })
    .unwrap();
    let header = dwarf.units().next().unwrap().unwrap();
    let unit = dwarf.unit(header).unwrap();
    let mut entries = unit.entries();
    let (mut targets, mut patches) = (Vec::new(), Vec::new());
    while let Some(entry) = entries.next_dfs().unwrap() {
        targets.push(entry.offset().0 as u32);
        for attribute in entry.attrs() {
            if let (gimli::DW_AT_type, gimli::AttributeValue::UnitRef(offset)) =
                (attribute.name(), attribute.value())
            {
                patches.push(offset.0 as u32);
            }
        }
    }
    patches.sort_unstable();
    patches.dedup();
    let mut dice = Dice(5);
    for round in 1..=8 {
        let mut damaged = bytes.clone();
        let section = &mut damaged[start as usize..(start + size) as usize];
        let chosen: Vec<u32> =
            (0..1 + round % 5).map(|_| patches[dice.below(patches.len())]).collect();
        // Every number that is the offset of a type is most likely a reference to it.
        for at in 0..section.len() - 4 {
            let number = u32::from_le_bytes(section[at..at + 4].try_into().unwrap());
            if patches.binary_search(&number).is_ok() && dice.below(3) > 0 {
                section[at..at + 4]
                    .copy_from_slice(&chosen[dice.below(chosen.len())].to_le_bytes());
            }
        }
        let begin = Instant::now();
        look_at(&scene, round, &damaged, &whole, &[work, work + 40, work + 120]);
        check_time(round, begin);
    }
    assert!(targets.len() > patches.len());
}

#[test]
fn circles_come_to_an_end() {
    check_circles(&["-g", "-O1"]);
    check_circles(&["-g", "-O0", "-gdwarf-4"]);
}

/// The address of a function by a part of its mangled name.
trait SymbolsNamed {
    fn symbols_named(&self, part: &str) -> Option<u64>;
}

impl SymbolsNamed for object::File<'_> {
    fn symbols_named(&self, part: &str) -> Option<u64> {
        use object::ObjectSymbol;
        self.symbols()
            .find(|symbol| symbol.name().is_ok_and(|name| name.contains(part)))
            .map(|symbol| symbol.address())
    }
}

#[test]
fn damaged_debug_information_does_no_harm() {
    check(7, 60, &["-g", "-O2"]);
}

#[test]
fn damaged_debug_information_of_version_4_does_no_harm() {
    check(8, 60, &["-g", "-O1", "-gdwarf-4"]);
}

#[test]
fn damaged_debug_information_without_optimization_does_no_harm() {
    check(9, 60, &["-g", "-O0"]);
}
