//! Questions about programs of other kinds: without debug information, stripped, in C++ and Rust, with threads, signals and
//! children.

use serde_json::Value;

use crate::query::{CRASH, Recorded, line_of};

fn functions(stack: &Value) -> Vec<&str> {
    stack["frames"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|frame| frame["function"].as_str())
        .collect()
}

#[test]
fn without_debug_information_there_are_names_and_addresses() {
    let recorded = Recorded::new("query-plain", "plain.c", CRASH, &["cc", "-O0", "-fno-builtin"]);
    let stack = recorded.object(&["bt"]);
    assert_eq!(functions(&stack)[..2], ["read_value", "main"]);
    assert!(stack["frames"][0].get("line").is_none());
    assert_eq!(recorded.objects(&["calls", "add"]).len(), 10);
    assert_eq!(recorded.objects(&["calls", "add"])[9]["returned"]["rax"], "0x37");
    assert_eq!(recorded.object(&["executions", "add", "--count"])["count"], 10);
    let total = recorded.object(&["x", "/dw", "&total"]);
    let total = total["memory"].as_str().unwrap();
    assert_eq!(recorded.objects(&["history", &format!("{total},4"), "--limit", "all"]).len(), 1010);
    let writes = recorded.ask(&["last-write", &format!("{total},4")]);
    assert!(writes.contains("by main+0x"), "{writes}");
    assert!(recorded.complaint(&["source"]).contains("no line numbers"));
    assert!(recorded.complaint(&["executions", "plain.c:12"]).contains("compiled with -g"));
}

#[test]
fn stripped_programs_have_addresses() {
    let recorded =
        Recorded::new("query-stripped", "bare.c", CRASH, &["cc", "-s", "-O0", "-fno-builtin"]);
    let stack = recorded.object(&["bt"]);
    let address = stack["frames"][0]["address"].as_str().unwrap();
    assert!(stack["frames"].as_array().unwrap().len() >= 2);
    assert!(recorded.ask(&["bt"]).starts_with(&format!("#0  {address} in ")), "{stack}");
    assert_eq!(
        recorded.object(&["executions", address, "--count"])["count"],
        0,
        "it was to be next"
    );
    assert!(recorded.complaint(&["calls", "add"]).contains("no function `add`"));
    assert!(recorded.ask(&["x", "/2xg", "$rsp"]).starts_with("0x"));
    assert!(recorded.complaint(&["print", "total"]).contains("total"));
}

#[test]
fn classes_of_cpp() {
    const SOURCE: &str = r#"
#include <stdexcept>
#include <string>
#include <vector>
namespace shapes {
struct Shape {
    virtual ~Shape() {}
    virtual double area(double scale) const = 0;
};
struct Square : Shape {
    double side;
    explicit Square(double side) : side(side) {}
    double area(double scale) const override { return side * side * scale; }
};
template <typename T> T twice(T value) { return value + value; }
}
int main() {
    std::vector<int> numbers;
    for (int i = 0; i < 5; i++) numbers.push_back(shapes::twice(i));
    std::string text = "hello";
    text += ", world";
    shapes::Square square(3);
    const shapes::Shape &shape = square;
    double sum = 0;
    for (double scale : {1.0, 2.0, 0.5}) sum += shape.area(scale);
    try { throw std::runtime_error("x"); } catch (const std::exception &) { sum += 1; }
    return static_cast<int>(sum) + static_cast<int>(numbers.size());
}
"#;
    let recorded = Recorded::new("query-cpp", "shapes.cpp", SOURCE, &["g++", "-g", "-O0"]);
    let calls = recorded.objects(&["calls", "Square::area"]);
    assert_eq!(calls.len(), 3);
    let results: Vec<&str> =
        calls.iter().map(|call| call["returned"]["value"].as_str().unwrap()).collect();
    assert_eq!(results, ["9", "18", "4.5"]);
    assert_eq!(calls[1]["arguments"][1]["value"], "2");
    assert!(calls[0]["function"].as_str().unwrap().contains("shapes::Square::area"));
    assert_eq!(recorded.objects(&["calls", "twice<int>"]).len(), 5);
    let last = format!("shapes.cpp:{}", line_of(SOURCE, "return static_cast"));
    let at = recorded.objects(&["executions", &last, "--limit", "1"])[0]["time"].to_string();
    assert_eq!(recorded.ask(&["print", "text", "--at", &at]), "\"hello, world\"\n");
    assert!(recorded.ask(&["print", "numbers", "--at", &at]).contains("{0, 2, 4, 6, 8}"));
    assert_eq!(recorded.ask(&["print", "sum", "--at", &at]), "32.5\n");
    let writes = recorded.objects(&["history", "sum", "--at", &at]);
    let values: Vec<&str> = writes.iter().map(|write| write["new"].as_str().unwrap()).collect();
    // Before it began to be, others had its memory.
    assert!(values.ends_with(&["0", "9", "27", "31.5", "32.5"]), "{values:?}");
}

#[test]
fn values_of_rust() {
    const SOURCE: &str = r#"
#[derive(Clone, Copy)]
struct Point { x: i64, y: i64 }
enum Shape { Dot(Point), Line { from: Point, to: Point } }
#[inline(never)]
fn length(shape: &Shape) -> i64 {
    match shape {
        Shape::Dot(_) => 0,
        Shape::Line { from, to } => (to.x - from.x).abs() + (to.y - from.y).abs(),
    }
}
fn main() {
    let origin = Point { x: 0, y: 0 };
    let shapes = vec![Shape::Dot(origin), Shape::Line { from: origin, to: Point { x: 3, y: 4 } }];
    let total: i64 = shapes.iter().map(length).sum();
    let name = String::from("seven");
    std::process::exit(if total == 7 && name.len() == 5 { 0 } else { 1 });
}
"#;
    let compiler = ["rustc", "-g", "-C", "opt-level=0", "--edition", "2024", "-A", "warnings"];
    let recorded = Recorded::new("query-rust", "shapes.rs", SOURCE, &compiler);
    let calls = recorded.objects(&["calls", "length"]);
    let results: Vec<&str> =
        calls.iter().map(|call| call["returned"]["value"].as_str().unwrap()).collect();
    assert_eq!(results, ["0", "7"]);
    let line = format!("shapes.rs:{}", line_of(SOURCE, "std::process::exit"));
    let at = recorded.objects(&["executions", &line, "--limit", "1"])[0]["time"].to_string();
    assert_eq!(recorded.ask(&["print", "total", "--at", &at]), "7\n");
    assert!(recorded.ask(&["print", "name", "--at", &at]).contains("\"seven\""));
    assert!(recorded.ask(&["print", "shapes", "--at", &at]).contains("Line"));
}

#[test]
fn threads_have_stacks_and_writes_of_their_own() {
    const SOURCE: &str = r#"
#include <pthread.h>
static long counts[2];
static pthread_barrier_t barrier;
static void *count(void *which)
{
    for (int i = 0; i < 100; i++)
        counts[(long)which]++;
    pthread_barrier_wait(&barrier);
    return which;
}
int main(void)
{
    pthread_t threads[2];
    pthread_barrier_init(&barrier, 0, 3);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, count, (void *)i);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return counts[0] + counts[1] != 200;
}
"#;
    let recorded =
        Recorded::new("query-threads", "threads.c", SOURCE, &["cc", "-g", "-O0", "-pthread"]);
    let mut writers = Vec::new();
    for element in ["counts[0]", "counts[1]"] {
        let writes = recorded.objects(&["history", element, "--limit", "all", "--at", "end"]);
        assert_eq!(writes.len(), 100);
        assert!(writes.iter().all(|write| write["thread"] == writes[0]["thread"]));
        writers.push(writes[0]["thread"].as_u64().unwrap());
    }
    assert_ne!(writers[0], writers[1]);
    let both = recorded.objects(&["history", "counts", "--limit", "all"]);
    assert_eq!(both.len(), 200);
    assert_eq!(both[199]["new"], "{100, 100}");
    // Wherever it is looked, each thread is somewhere.
    let calls = recorded.objects(&["calls", "count"]);
    assert_eq!(calls.len(), 2);
    let last = recorded.objects(&["history", "counts", "--limit", "1"])[0]["time"].to_string();
    let threads = recorded.objects(&["threads", "--at", &last]);
    assert!(threads.len() >= 2, "{threads:?}");
    let running = threads.iter().find(|thread| thread["running"] == true).unwrap();
    assert_eq!(running["function"], "count");
    let main = threads
        .iter()
        .find(|thread| !writers.contains(&thread["thread"].as_u64().unwrap()))
        .unwrap();
    let stack = recorded.object(&["bt", "--at", &last, "--thread", &main["thread"].to_string()]);
    assert!(functions(&stack).contains(&"main"), "{stack}");
    let all = recorded.objects(&["bt", "--at", &last, "--all-threads"]);
    assert_eq!(all.len(), threads.len());
    let one = writers[0].to_string();
    assert_eq!(recorded.objects(&["calls", "count", "--thread", &one]).len(), 1);
    let exited = recorded.objects(&["syscalls", "--thread", &one, "--limit", "all"]);
    assert!(exited.iter().all(|call| call["thread"] == writers[0]) && !exited.is_empty());
    let waited = recorded.ask(&["threads", "--at", &last]);
    assert!(waited.contains("* "), "{waited}");
}

#[test]
fn handlers_of_signals_are_on_the_stack() {
    const SOURCE: &str = r#"
#include <signal.h>
#include <unistd.h>
static volatile int seen;
static void handle(int number)
{
    seen = number;
}
static void provoke(void)
{
    raise(SIGUSR1);
}
int main(void)
{
    signal(SIGUSR1, handle);
    provoke();
    return seen != SIGUSR1;
}
"#;
    let recorded = Recorded::new("query-signals", "signals.c", SOURCE, &["cc", "-g", "-O0"]);
    let signals = recorded.objects(&["signals"]);
    assert_eq!(signals.len(), 1);
    assert_eq!(
        (&signals[0]["name"], &signals[0]["handler"]["function"]),
        (&"SIGUSR1".into(), &"handle".into())
    );
    let write = recorded.object(&["last-write", "seen"]);
    let stack = write["stack"].as_array().unwrap();
    assert!(stack.iter().any(|frame| frame["signal_frame"] == true), "{write}");
    assert_eq!(stack[0]["function"], "handle");
    let named: Vec<&str> = stack.iter().filter_map(|frame| frame["function"].as_str()).collect();
    assert!(named.contains(&"provoke") && named.contains(&"main"), "{named:?}");
    assert!(recorded.ask(&["last-write", "seen"]).contains("<signal handler called>"));
    assert!(recorded.ask(&["signals"]).contains("SIGUSR1"));
}

#[test]
fn the_process_that_crashed_is_asked_unless_another_is_named() {
    const SOURCE: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int generation;
static void fail(void)
{
    generation = 2;
    abort();
}
int main(void)
{
    generation = 1;
    if (fork() == 0)
        fail();
    int status;
    wait(&status);
    return 0;
}
"#;
    let recorded = Recorded::new("query-fork", "fork.c", SOURCE, &["cc", "-g", "-O0"]);
    let stack = recorded.object(&["bt"]);
    assert_eq!(stack["log"], 1);
    let named = functions(&stack);
    let aborts = named.iter().position(|name| name.ends_with("abort")).expect("it aborts");
    assert_eq!(named[aborts + 1..aborts + 3], ["fail", "main"]);
    // Frames that the child never returned to are where its parent had them.
    assert_eq!(named.last(), Some(&"_start"), "{named:?}");
    assert_eq!(recorded.ask(&["print", "generation"]), "2\n");
    assert_eq!(recorded.ask(&["print", "generation", "--process", "0"]), "1\n");
    let at_start = recorded.ask(&["print", "generation", "--at", "start"]);
    assert_eq!(at_start, "1\n", "memory that the child has not touched is its parent's");
    // What the parent wrote is no write of the child's.
    let writes = recorded.objects(&["history", "generation"]);
    assert_eq!(writes.len(), 1);
    assert_eq!((&writes[0]["old"], &writes[0]["new"]), (&"1".into(), &"2".into()));
    let info = recorded.object(&["info"]);
    let pid = info["processes"][1]["pid"].to_string();
    assert_eq!(recorded.object(&["bt", "--process", &pid])["log"], 1);
    assert!(recorded.complaint(&["bt", "--process", "424242424"]).contains("it has 0 (pid "));
}

/// A name whose function is chosen when the program starts, one of its own and one of the C library.
const CHOSEN: &str = r#"
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

static int twice_slow(int number) { return number + number; }
static int twice_fast(int number) { return number << 1; }
static int is_fast = 1;
static int (*resolve_twice(void))(int) { return is_fast ? twice_fast : twice_slow; }
int twice(int number) __attribute__((ifunc("resolve_twice")));

int main(int argc, char **argv)
{
    char copy[64];
    size_t (*volatile length)(const char *) = strlen;
    int sum = twice(3) + twice(4);
    sum += length(memcpy(copy, "seven b", 8));
    if (fork() == 0)
        _exit(twice(5));
    wait(NULL);
    return sum == 21 ? 0 : 1;
}
"#;

#[test]
fn names_of_chosen_functions_are_those_that_were_chosen() {
    let recorded =
        Recorded::new("query-chosen", "chosen.c", CHOSEN, &["cc", "-g", "-O0", "-fno-builtin"]);
    let calls = recorded.objects(&["calls", "twice"]);
    assert_eq!(calls.len(), 2, "{calls:?}");
    let moment = calls[0]["time"].to_string();
    let frames = recorded.object(&["bt", "--at", &moment]);
    assert_eq!(frames["frames"][0]["function"], "twice_fast");
    assert_eq!(frames["frames"][1]["function"], "main");
    assert_eq!(recorded.object(&["goto", "start func_enter twice"])["time"], calls[0]["time"]);
    let measured = recorded.objects(&["calls", "strlen"]);
    let of_main = measured.iter().any(|call| {
        let frames = recorded.object(&["bt", "--at", &call["time"].to_string()]);
        frames["frames"][1]["function"] == "main"
    });
    assert!(of_main, "{measured:?}");
    // The child was forked after the choice.
    let of_child = recorded.objects(&["calls", "twice", "--process", "1"]);
    assert_eq!(of_child.len(), 1, "{of_child:?}");
}

#[test]
fn calls_of_cpp_return_values_unless_an_exception_leaves_them() {
    const SOURCE: &str = r#"
#include <stdexcept>
int dig(int depth)
{
    if (depth == 0)
        throw std::runtime_error("bottom");
    return dig(depth - 1) + 1;
}
namespace {
bool careful(int depth)
{
    try {
        return dig(depth) > 0;
    } catch (const std::exception &) {
        return false;
    }
}
struct owner {
    int number;
    ~owner() {}
};
owner make(int number, int times) { return {number * times}; }
int take(owner taken, int number) { return taken.number - number; }
}
int main() { return careful(2) + take(make(3, 4), 12); }
"#;
    let recorded = Recorded::new("query-thrown", "thrown.cpp", SOURCE, &["c++", "-g", "-O0"]);
    let calls = recorded.objects(&["calls", "dig"]);
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(calls.iter().all(|call| call["returned"].is_null()), "{calls:?}");
    assert!(recorded.ask(&["calls", "dig"]).contains("dig(depth=2) (did not return)"));
    // They are in a namespace without a name, and the caller says where an object goes that has to be destroyed.
    assert_eq!(recorded.objects(&["calls", "careful"])[0]["returned"]["value"], "false");
    let made = recorded.ask(&["calls", "make"]);
    assert!(made.contains("make(number=3, times=4) = {number = 12}"), "{made}");
    let taken = recorded.ask(&["calls", "take"]);
    assert!(taken.contains("take(taken={number = 12}, number=12) = 0"), "{taken}");
}

#[test]
fn small_records_and_vectors_are_passed_and_returned_in_registers() {
    const SOURCE: &str = r#"
#include <immintrin.h>
struct both { int whole; double part; };
struct both split(double number) { return (struct both){(int)number, number - (int)number}; }
struct both swapped(struct both both) { return (struct both){(int)both.part, both.whole}; }
__int128 wide(long high, long low) { return (__int128)high << 64 | low; }
__m128i added(__m128i a, __m128i b) { return _mm_add_epi64(a, b); }
int main(void)
{
    struct both both = swapped(split(3.5));
    __m128i sum = added(_mm_set_epi64x(2, 1), _mm_set_epi64x(20, 10));
    return (int)wide(1, both.whole) + (int)_mm_cvtsi128_si64(sum) - 11;
}
"#;
    let recorded = Recorded::new("query-parts", "parts.c", SOURCE, &["cc", "-g", "-O0"]);
    let results = [
        ("split", "split(number=3.5) = {whole = 3, part = 0.5}"),
        ("swapped", "swapped(both={whole = 3, part = 0.5}) = {whole = 0, part = 3}"),
        ("wide", "wide(high=1, low=0) = 18446744073709551616"),
        ("added", "added(a={1, 2}, b={10, 20}) = {11, 22}"),
    ];
    for (function, expected) in results {
        let calls = recorded.ask(&["calls", function]);
        assert!(calls.contains(expected), "{calls}");
    }
}

#[test]
fn deep_stacks_have_their_arguments_soon() {
    const SOURCE: &str = "int dig(int depth) { char room[256] = {0}; return dig(depth + 1) + room[3]; }\n\
        int main(void) { return dig(0); }\n";
    let recorded = Recorded::new("query-deep", "deep.c", SOURCE, &["cc", "-g", "-O0"]);
    let stack = recorded.object(&["bt", "--args", "--limit", "1200"]);
    let frames = stack["frames"].as_array().unwrap();
    let depth = |frame: &Value| frame["arguments"][0]["value"].as_str().unwrap().parse::<usize>();
    let deepest = depth(&frames[0]).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        assert_eq!(depth(frame), Ok(deepest - number));
    }
    let text = recorded.ask(&["bt", "--limit", "1001"]);
    assert!(text.contains("\n#10 dig at ") && text.contains("\n#1000 dig at "), "{text}");
}

/// A file that is mapped, and read or written only after many intervals. Nothing else knows what it held once it is gone.
const MAPPED: &str = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
char *text;
volatile unsigned long spun;
static void ready(void) {}
static void spin(void) { for (unsigned long i = 0; i < 300000; i++) spun += i; }
int main(void)
{
    int file = open("text", O_RDONLY);
    text = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    ready();
    spin();
    unsigned long sum = 0;
    for (int i = 0; i < 8192; i++) sum += text[i];
    spin();
    /* This page is found and written over at once. */
    for (int i = 0; i < 100; i++) text[4096 + i] = text[i] + 1;
    munmap(text, 4096);
    return sum == 0;
}
"#;

#[test]
fn memory_that_was_read_much_later() {
    let recorded = Recorded::new("query-later", "mapped.c", MAPPED, &["cc", "-g", "-O0"]);
    let file = recorded.store.directory().join("text");
    let contents: String = (0..8192u32).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
    for interval in ["1M", "200k", "50k"] {
        std::fs::write(&file, &contents).unwrap();
        let options = ["record", "--quiet", "--no-index", "--interval", interval, "--"];
        recorded.store.retro(options.iter().chain(&["./program"]));
        std::fs::remove_file(&file).unwrap();
        recorded.ask(&["index"]);
        let at = recorded.objects(&["calls", "ready"])[0]["time"].to_string();
        for (index, wanted) in
            [(0, "abcdefgh"), (4090, "ijklmnop"), (4096, "opqrstuv"), (8184, "uvwxyzab")]
        {
            let expression = format!("*(text+{index})@8");
            let said = recorded.ask(&["print", &expression, "--at", &at]);
            assert_eq!(said, format!("\"{wanted}\"\n"), "{interval}: {expression}");
        }
    }
}

/// The unlikely part of a function has code of its own elsewhere, where the parameter is in no register any more; and a copy of a
/// function is made for a parameter that is always the same.
#[test]
fn arguments_in_unlikely_code_are_those_of_the_call() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int table[4] = {1, 2, 3, 4};
volatile int sink;
__attribute__((noinline, cold, noreturn)) static void fail(const char *why, int code)
{
    sink = code;
    puts(why);
    abort();
}
__attribute__((noinline)) int look(int key, int *place)
{
    int index = key & 3;
    if (__builtin_expect(place[index] == 4, 0))
        fail("four", index);
    return place[index];
}
int main(void)
{
    for (int i = 0; i < 4; i++)
        sink += look(i + 16, table);
}
"#;
    let recorded = Recorded::new("query-unlikely", "unlikely.c", SOURCE, &["gcc", "-g", "-O2"]);
    let stack = recorded.object(&["bt", "--args"]);
    let arguments = |function: &str| {
        let frames = stack["frames"].as_array().unwrap().iter();
        let frame = frames.into_iter().find(|frame| frame["function"] == function).unwrap();
        let arguments = frame["arguments"].as_array().unwrap().iter();
        let mut named: Vec<(&str, &str)> = arguments
            .map(|one| (one["name"].as_str().unwrap(), one["value"].as_str().unwrap()))
            .collect();
        named.sort();
        named
    };
    assert_eq!(arguments("look")[0], ("key", "19"));
    assert_eq!(arguments("fail")[0], ("code", "3"));
    assert!(arguments("fail")[1].1.ends_with("\"four\""), "{stack}");
    let frames = stack["frames"].as_array().unwrap().iter();
    let index = frames.into_iter().position(|frame| frame["function"] == "look").unwrap();
    assert_eq!(recorded.ask(&["print", "key", "--frame", &index.to_string()]), "19\n");
}

/// What is mapped from a device has its name, as drivers' mappings do.
#[test]
fn mappings_of_devices_have_their_paths() {
    const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
static void ready(void) {}
int main(void)
{
    int device = open("/dev/zero", O_RDWR), memory = memfd_create("pinned", 0);
    char *whole = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
    ftruncate(memory, 8192);
    char *named = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    mprotect(whole + 4096, 4096, PROT_READ);
    named[0] = whole[0] = 1;
    if (fork() == 0)
        _exit(whole[0] + 6);
    ready();
    return 0;
}
"#;
    let recorded = Recorded::new("query-devices", "devices.c", SOURCE, &["cc", "-g", "-O0"]);
    let at = recorded.objects(&["calls", "ready"])[0]["time"].to_string();
    let shown = |question: &[&str]| -> Vec<(String, String)> {
        let maps = recorded.objects(question).into_iter();
        let named = maps.filter_map(|map| {
            let file = map["file"].as_str()?.to_owned();
            Some((file, map["rights"].as_str()?.to_owned()))
        });
        named.filter(|(file, _)| file.starts_with("/dev/") || file.contains("memfd")).collect()
    };
    let zero = |rights: &str| ("/dev/zero".to_owned(), rights.to_owned());
    let memory = ("/memfd:pinned (deleted)".to_owned(), "rw-s".to_owned());
    let wanted = [zero("rw-s"), zero("r--s"), zero("rw-s"), memory];
    let mut seen = shown(&["maps", "--at", &at]);
    seen.sort_by_key(|(file, _)| file.contains("memfd"));
    assert_eq!(seen, wanted);
    let mut child = shown(&["maps", "--process", "1"]);
    child.sort_by_key(|(file, _)| file.contains("memfd"));
    assert_eq!(child, wanted);
}
