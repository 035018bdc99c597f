//! The commands that ask a recording, on programs whose answers are known.
//!
//! Programs are compiled and recorded once for all tests; questions change nothing.

use std::fs;
use std::sync::OnceLock;

use retro_testkit::compare::{Ending, Outcome, run};
use serde_json::Value;

use crate::store::Store;
use crate::{TIMEOUT, text};

/// A recorded program.
pub struct Recorded {
    pub store: Store,
}

impl Recorded {
    /// Compiles a program and records it. `compiler` is a command without the names of files.
    pub fn new(name: &str, file: &str, source: &str, compiler: &[&str]) -> Recorded {
        let store = Store::new(name);
        fs::write(store.directory().join(file), source).unwrap();
        let mut command = store.command(compiler[0]);
        command.args(&compiler[1..]).args(["-o", "program", file]);
        let compiled = run(&mut command, TIMEOUT);
        assert_eq!(compiled.status, Ending::Exited(0), "{}", text(&compiled.stderr));
        let recorded = Recorded { store };
        recorded.record(&["./program"]);
        recorded
    }

    pub fn record(&self, command: &[&str]) -> Outcome {
        let recorded =
            self.store.retro(["record", "--quiet", "--no-index", "--"].iter().chain(command));
        // From here on nothing is said about the index.
        assert_eq!(self.store.retro(["index"]).status, Ending::Exited(0));
        recorded
    }

    /// The answer to a question, as text.
    #[track_caller]
    pub fn ask(&self, question: &[&str]) -> String {
        self.store.output(question)
    }

    /// The answer as an object.
    #[track_caller]
    pub fn object(&self, question: &[&str]) -> Value {
        self.store.json(question.iter().chain(&["--json"]))
    }

    /// The answer as objects, one a line.
    #[track_caller]
    pub fn objects(&self, question: &[&str]) -> Vec<Value> {
        let lines = self.ask(&[question, &["--json"]].concat());
        lines.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
    }

    /// What a question that cannot be answered is answered with.
    #[track_caller]
    pub fn complaint(&self, question: &[&str]) -> String {
        let outcome = self.store.retro(question);
        let complaint = text(&outcome.stderr);
        assert_eq!(outcome.status, Ending::Exited(1), "{question:?}: {complaint}");
        assert!(complaint.starts_with("retro: "), "{question:?}: {complaint}");
        assert!(!complaint.contains("panicked"), "{question:?}: {complaint}");
        complaint
    }
}

/// The number of the first line with a text.
pub fn line_of(source: &str, wanted: &str) -> u64 {
    let index = source.lines().position(|line| line.contains(wanted)).expect("the line is there");
    index as u64 + 1
}

/// One that overruns a buffer and crashes much later.
pub const CRASH: &str = r#"
#include <stdio.h>
#include <string.h>

struct pair { char name[8]; int *value; };
static int number = 7;
static struct pair pair = { "abc", &number };
static int total;

static int add(int left, int right)
{
    total += left * right;
    return left + right;
}

static void rename_to(struct pair *which, const char *name)
{
    strcpy(which->name, name);
}

static int read_value(struct pair *which)
{
    return *which->value;
}

int main(int argc, char **argv)
{
    int sum = 0;
    for (int i = 1; i <= 10; i++)
        sum = add(sum, i);
    rename_to(&pair, "longer than that");
    for (int i = 0; i < 1000; i++)
        total ^= i;
    sum += read_value(&pair);
    return sum;
}
"#;

pub fn crash() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    // Without `-fno-builtin` the compiler turns the copy into stores of its own.
    RECORDED.get_or_init(|| {
        Recorded::new("query-crash", "crash.c", CRASH, &["cc", "-g", "-O0", "-fno-builtin"])
    })
}

#[test]
fn the_end_of_a_crash_is_where_it_crashed() {
    let stack = crash().object(&["bt", "--at", "end", "--args"]);
    let frames = stack["frames"].as_array().unwrap();
    let named: Vec<&str> = frames.iter().filter_map(|frame| frame["function"].as_str()).collect();
    assert_eq!(named[..2], ["read_value", "main"]);
    assert_eq!(frames[0]["line"], line_of(CRASH, "return *which->value"));
    assert_eq!(frames[1]["line"], line_of(CRASH, "sum += read_value"));
    assert_eq!(frames[0]["arguments"][0]["name"], "which");
    assert_eq!(frames[1]["arguments"][0]["value"], "1");
    assert_eq!(crash().object(&["bt"])["frames"][0]["function"], "read_value");
    assert_eq!(crash().object(&["goto", "end signal SEGV"])["time"], stack["time"]);
    let text = crash().ask(&["bt"]);
    let line = line_of(CRASH, "return *which->value");
    assert!(
        text.starts_with(&format!("#0  read_value at crash.c:{line}\n#1  main at crash.c:")),
        "{text}"
    );
    let signals = crash().objects(&["signals"]);
    assert_eq!((signals.len(), &signals[0]["name"]), (1, &"SIGSEGV".into()));
}

#[test]
fn one_command_finds_the_write_behind_a_crash() {
    let write = crash().object(&["last-write", "which->value"]);
    let stack: Vec<&str> = write["stack"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|frame| frame["function"].as_str())
        .collect();
    let caller =
        stack.iter().position(|&name| name == "rename_to").expect("the writer's caller is known");
    assert_eq!(stack[caller + 1], "main");
    assert_eq!(write["stack"][caller]["line"], line_of(CRASH, "strcpy(which->name"));
    assert_eq!(write["new"], "(int *) 0x74616874206e6168");
    assert_eq!(write["kernel"], false);
    let text = crash().ask(&["last-write", "which->value"]);
    assert!(text.contains("strcpy(which->name, name);"), "{text}");
    assert!(text.contains("rename_to at crash.c:"), "{text}");
}

#[test]
fn histories_have_the_values_before_and_after() {
    // 0*1, 1*2, 3*3, 6*4 ... are added to the total.
    let writes = crash().objects(&["history", "total", "--limit", "all", "--frame", "1"]);
    assert_eq!(writes.len(), 1010);
    let (mut sum, mut total) = (0, 0);
    for (write, factor) in writes.iter().zip(1..=10) {
        let old = total.to_string();
        total += sum * factor;
        sum += factor;
        assert_eq!(
            (write["old"].as_str(), write["new"].as_str()),
            (Some(&*old), Some(&*total.to_string()))
        );
        assert_eq!(
            (write["function"].as_str(), write["type"].as_str()),
            (Some("add"), Some("int"))
        );
        assert_eq!(write["line"], line_of(CRASH, "total += left"));
    }
    let times: Vec<u64> = writes.iter().map(|write| write["time"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    let last = crash().objects(&["history", "total", "--limit", "all", "--reverse"]);
    assert!(last.iter().eq(writes.iter().rev()), "the other way round it is the same");
    let since = times[5].to_string();
    let part =
        crash().objects(&["history", "total", "--since", &since, "--at", &times[8].to_string()]);
    assert_eq!(part, writes[5..8]);
    assert_eq!(crash().objects(&["history", "total", "--limit", "3"]), writes[1007..]);
    let outcome = crash().store.retro(["history", "total"]);
    assert_eq!(text(&outcome.stdout).lines().count(), 100);
    assert!(text(&outcome.stderr).contains("only the latest 100 are shown"));
    // Memory without a type, and memory that is only partly written.
    let address = writes[0]["memory"].as_str().unwrap();
    let bytes = crash().objects(&["history", &format!("{address},1"), "--limit", "all"]);
    assert_eq!((bytes.len(), &bytes[0]["type"]), (1010, &Value::Null));
}

#[test]
fn calls_have_arguments_callers_and_results() {
    let calls = crash().objects(&["calls", "add"]);
    assert_eq!(calls.len(), 10);
    let mut sum = 0;
    for (call, right) in calls.iter().zip(1..=10) {
        let values: Vec<&str> = call["arguments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["value"].as_str().unwrap())
            .collect();
        assert_eq!(values, [sum.to_string(), right.to_string()]);
        sum += right;
        assert_eq!(call["caller"]["function"], "main");
        assert_eq!(call["caller"]["line"], line_of(CRASH, "sum = add"));
        assert_eq!(call["returned"]["value"], sum.to_string());
        assert!(call["returned"]["time"].as_u64() > call["time"].as_u64());
    }
    let crashed = crash().objects(&["calls", "read_value"]);
    assert_eq!((crashed.len(), &crashed[0]["returned"]), (1, &Value::Null));
    let text = crash().ask(&["calls", "add", "--reverse"]);
    assert!(
        text.lines().next().unwrap().contains("add(left=45, right=10) = 55  in main at crash.c:"),
        "{text}"
    );
    let at_call = calls[4]["time"].as_u64().unwrap().to_string();
    assert_eq!(crash().objects(&["calls", "add", "--at", &at_call]).len(), 4);
}

#[test]
fn executions_of_lines_functions_and_addresses() {
    let line = format!("crash.c:{}", line_of(CRASH, "total += left"));
    let by_line = crash().objects(&["executions", &line]);
    assert_eq!(by_line.len(), 10);
    let body = format!("crash.c:{}", line_of(CRASH, "total ^= i"));
    assert_eq!(crash().object(&["executions", &body, "--count"])["count"], 1000);
    assert_eq!(crash().objects(&["executions", &body, "--limit", "all"]).len(), 1000);
    let by_function = crash().objects(&["executions", "add"]);
    assert_eq!(by_function.len(), 10);
    let address = by_function[0]["address"].as_str().unwrap();
    assert_eq!(crash().objects(&["executions", address]), by_function);
    assert_eq!(crash().ask(&["executions", "add", "--count"]), "10\n");
    // What it holds then.
    let times: Vec<String> = by_line.iter().map(|one| one["time"].to_string()).collect();
    assert_eq!(crash().object(&["print", "right", "--at", &times[6]])["value"], "7");
}

#[test]
fn values_are_printed_as_gdb_prints_them() {
    for (question, value) in [
        (&["print", "sum", "--frame", "1"][..], "55"),
        (&["print", "/x", "sum", "+", "1", "--frame", "1"], "0x38"),
        (&["print", "/t", "number"], "111"),
        (&["print", "pair.name[0]"], "108 'l'"),
        (&["print", "sizeof(struct pair)"], "16"),
        (&["print", "number == 7 && total != 0"], "1"),
        (&["print", "--", "-number"], "-7"),
    ] {
        assert_eq!(crash().ask(question), format!("{value}\n"), "{question:?}");
    }
    let pair = crash().object(&["print", "pair"]);
    assert_eq!((&pair["type"], &pair["size"]), (&"struct pair".into(), &16.into()));
    assert_eq!(pair["parts"][0]["name"], "name");
    // At the start nothing of it has happened, except that files are mapped.
    let start = crash().object(&["executions", "main", "--limit", "1"]);
    let start = start["time"].to_string();
    assert_eq!(crash().object(&["print", "total", "--at", &start])["value"], "0");
    assert_eq!(
        crash().object(&["print", "pair.name", "--at", &start])["value"],
        r#""abc\000\000\000\000""#
    );
}

#[test]
fn memory_is_examined_unit_by_unit() {
    let name = crash().object(&["x", "/8xb", "&pair"]);
    let bytes: String = name["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["bytes"].as_str().unwrap())
        .collect();
    assert_eq!(bytes, "6c6f6e6765722074");
    let text = crash().ask(&["x", "/dw", "&number"]);
    assert!(text.ends_with("<number>:  7\n"), "{text}");
    let text = crash().ask(&["x", "/s", "pair.name"]);
    assert!(text.ends_with("  \"longer than that\"\n"), "{text}");
    let written = crash().object(&["x", "/2xg", "&pair", "--last-writes"]);
    let write = crash().object(&["last-write", "which->value"]);
    assert_eq!(written["items"][1]["last_write"], write["time"]);
    let never = crash().object(&["x", "/dw", "&number", "--last-writes"]);
    assert!(never["items"][0]["last_write"].is_null() || never["items"][0]["last_write"].is_u64());
}

#[test]
fn instructions_are_examined() {
    let stack = crash().object(&["bt"]);
    let here = crash().object(&["x", "/3i", "$pc"]);
    let items = here["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(items[0]["address"], stack["frames"][0]["address"]);
    let bytes = crash().object(&["x", "/1xb", "$pc"]);
    let first = items[0]["bytes"].as_str().unwrap();
    assert!(first.starts_with(bytes["items"][0]["bytes"].as_str().unwrap()), "{first}");
    let text = crash().ask(&["x", "/2i", "$pc"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("=> 0x") && lines[1].starts_with("   0x"), "{text}");
    let start = crash().ask(&["x", "/1i", "main"]);
    assert!(start.contains(" <main>:  "), "{start}");
}

#[test]
fn registers_include_vectors() {
    let general = crash().object(&["regs"]);
    let stack = crash().object(&["bt"]);
    assert_eq!(general["general"]["rip"], stack["frames"][0]["address"]);
    for (register, expression) in
        [("rflags", "$eflags"), ("fs_base", "$fs_base"), ("gs_base", "$gs_base"), ("rsp", "$sp")]
    {
        let value = crash().object(&["print", "/x", &format!("(long) {expression}")]);
        assert_eq!(value["value"], general["general"][register], "{expression}");
    }
    let caller = crash().object(&["regs", "--frame", "1"]);
    assert_eq!(caller["general"]["rip"], stack["frames"][1]["address"]);
    let all = crash().object(&["regs", "--all"]);
    let vectors = all["vectors"].as_object().unwrap();
    let widest = ["zmm0", "ymm0", "xmm0"].iter().find_map(|name| vectors.get(*name));
    assert!(widest.is_some_and(|value| value.as_str().is_some_and(|digits| digits.len() >= 34)));
    assert!(vectors.contains_key("mxcsr") && vectors.contains_key("st7"));
    assert!(crash().ask(&["regs"]).contains("rip       0x"));
}

#[test]
fn sources_are_shown_and_found_elsewhere() {
    let recorded = crash();
    let source = recorded.object(&["source", "--lines", "3"]);
    let line = line_of(CRASH, "return *which->value");
    assert_eq!(source["line"], line);
    let shown: Vec<u64> = source["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["line"].as_u64().unwrap())
        .collect();
    assert_eq!(shown, [line - 1, line, line + 1]);
    let text = recorded.ask(&["source"]);
    assert!(
        text.lines().any(|shown| shown == format!(">{line:>6}      return *which->value;")),
        "{text}"
    );
    let elsewhere = recorded.store.directory().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("crash.c"), CRASH.replace("return *which", "RETURN *which")).unwrap();
    let map = format!("{}={}", recorded.store.directory().display(), elsewhere.display());
    let outcome = recorded.store.retro(["source", "--source-map", &map]);
    assert!(crate::text(&outcome.stdout).contains("RETURN *which->value"), "{outcome:?}");
    assert!(recorded.complaint(&["source", "--source-map", "nonsense"]).contains("OLD=NEW"));
}

#[test]
fn queries_lead_to_moments() {
    let recorded =
        Recorded::new("query-goto", "crash.c", CRASH, &["cc", "-g", "-O0", "-fno-builtin"]);
    let calls = recorded.objects(&["calls", "add"]);
    let third = recorded.object(&["goto", "start func_enter add 3"]);
    assert_eq!(third["time"], calls[2]["time"]);
    assert_eq!((&third["event"], &third["function"]), (&"func_enter".into(), &"add".into()));
    let before = recorded.object(&["goto", "last", "backward", "func_enter", "add"]);
    assert_eq!(before["time"], calls[1]["time"]);
    recorded.object(&["step"]);
    assert_eq!(recorded.object(&["print", "right", "--at", "last"])["value"], "2");
    let all = recorded.objects(&["goto", "start func_enter add all where right > 7"]);
    let times: Vec<&Value> = all.iter().map(|found| &found["time"]).collect();
    assert_eq!(times, [&calls[7]["time"], &calls[8]["time"], &calls[9]["time"]]);
    let end = recorded.object(&["goto", "end"])["time"].as_u64().unwrap();
    assert_eq!(recorded.object(&["goto", "50%"])["time"], end / 2);
    assert!(recorded.complaint(&["goto", "start func_enter add 11"]).contains("no such moment"));
    let wrong = recorded.complaint(&["goto", "start sideways"]);
    assert!(wrong.contains('^'), "{wrong}");
    let text = recorded.ask(&["goto", "end backward store total"]);
    assert!(text.contains("main at crash.c:") && text.contains("->"), "{text}");
}

#[test]
fn address_spaces_threads_and_system_calls() {
    let maps = crash().objects(&["maps"]);
    let program = maps
        .iter()
        .filter(|map| map["file"].as_str().is_some_and(|file| file.ends_with("/program")));
    assert!(program.clone().any(|map| map["rights"] == "r-xp"), "{maps:?}");
    let address = u64::from_str_radix(
        &crash().object(&["regs"])["general"]["rip"].as_str().unwrap()[2..],
        16,
    );
    let address = address.unwrap();
    let number = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
    assert!(
        program
            .into_iter()
            .any(|map| (number(&map["start"])..number(&map["end"])).contains(&address))
    );
    let threads = crash().objects(&["threads"]);
    assert_eq!((threads.len(), &threads[0]["running"]), (1, &true.into()));
    assert_eq!(threads[0]["function"], "read_value");
    let calls = crash().objects(&["syscalls", "--limit", "all"]);
    let dumped = crash().objects(&["dump", "--kind", "syscall-enter"]);
    assert_eq!(calls.len(), dumped.len());
    let numbers = |calls: &[Value]| -> Vec<Value> {
        calls.iter().map(|call| call["number"].clone()).collect()
    };
    assert_eq!(numbers(&calls), numbers(&dumped));
    assert!(calls.iter().all(|call| !call["result"].is_null()), "all of them have returned");
    let mapped = crash().objects(&["syscalls", "--name", "mmap,munmap", "--limit", "all"]);
    let names = |call: &&Value| matches!(call["name"].as_str(), Some("mmap" | "munmap"));
    assert_eq!(mapped.len(), calls.iter().filter(names).count());
    assert!(crash().ask(&["syscalls", "--name", "mmap"]).contains("mmap(NULL, "));
}
