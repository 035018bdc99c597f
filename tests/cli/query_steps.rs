//! `retro step`: by instructions and lines, through code with and without lines.

use std::fs;

use retro_testkit::compare::{Ending, run};

use crate::query::{CRASH, Recorded, line_of};
use crate::store::Store;
use crate::{TIMEOUT, text};

#[test]
fn steps_go_both_ways_and_remember_where_they_are() {
    let recorded =
        Recorded::new("query-steps", "crash.c", CRASH, &["cc", "-g", "-O0", "-fno-builtin"]);
    let calls = recorded.objects(&["calls", "add"]);
    let entry = calls[2]["time"].to_string();
    assert!(recorded.complaint(&["print", "total", "--at", "last"]).contains("no last result"));
    let first = recorded.object(&["step", "--at", &entry]);
    assert_eq!(first["line"], line_of(CRASH, "total += left"));
    let second = recorded.object(&["step"]);
    assert_eq!(second["line"], line_of(CRASH, "return left + right"));
    let back = recorded.object(&["step", "--reverse"]);
    assert_eq!(back, first);
    assert_eq!(recorded.object(&["bt", "--at", "last"])["frames"][0]["line"], first["line"]);
    let out = recorded.object(&["step", "--out"]);
    assert_eq!(out["function"], "main");
    assert!(out["time"].as_u64() > second["time"].as_u64());
    let called = recorded.object(&["step", "--out", "--reverse", "--at", &entry]);
    assert_eq!(called["function"], "main");
    let instruction = recorded.object(&["step", "--instruction", "-n", "3", "--at", "1000"]);
    assert_eq!(instruction["time"], 1003);
    let over =
        recorded.object(&["step", "--over", "--instruction", "--at", &called["time"].to_string()]);
    assert_eq!(over["function"], "main");
    assert!(
        recorded.complaint(&["step", "--at", "end", "--instruction"]).contains("no instruction")
    );
    // The instruction that crashed was not executed, and is in the middle of its line.
    let crashed = recorded.object(&["bt"])["frames"][0].clone();
    let begun = recorded.object(&["step", "--reverse", "--at", "end"]);
    assert_eq!((&begun["function"], &begun["line"]), (&crashed["function"], &crashed["line"]));
    assert_ne!(begun["address"], crashed["address"]);
    let text = recorded.ask(&["step", "--at", &entry]);
    assert!(text.contains("add at crash.c:") && text.contains("total += left * right;"), "{text}");
}

const LIBRARY: &str = r#"
int twice(int number)
{
    return 2 * number;
}
"#;

const WITHOUT_LINES: &str = r#"
int apply(int (*function)(int), int number)
{
    return function(number) + function(number + 1);
}
"#;

const USER: &str = r#"
int twice(int);
int apply(int (*function)(int), int number);

static int half(int number)
{
    return number / 2;
}

int main(void)
{
    int sum = twice(1);
    sum += twice(2);
    sum += apply(half, 4);
    return sum == 10 ? 0 : 1;
}
"#;

/// A program and two libraries, one without lines. Stubs lead from one to the other.
fn user_of_libraries(name: &str, binding: &str) -> Recorded {
    let store = Store::new(name);
    let directory = store.directory();
    fs::write(directory.join("library.c"), LIBRARY).unwrap();
    fs::write(directory.join("without.c"), WITHOUT_LINES).unwrap();
    fs::write(directory.join("user.c"), USER).unwrap();
    let script = format!(
        "cc -g -O0 -shared -fPIC -o liblines.so library.c &&
         cc -O0 -shared -fPIC -o libwithout.so without.c &&
         cc -g -O0 -Wl,-z,{binding} -o program user.c ./liblines.so ./libwithout.so"
    );
    let mut command = store.command("sh");
    let compiled = run(command.args(["-c", &script]), TIMEOUT);
    assert_eq!(compiled.status, Ending::Exited(0), "{}", text(&compiled.stderr));
    let recorded = Recorded { store };
    recorded.record(&["./program"]);
    recorded
}

#[test]
fn steps_go_through_stubs_but_not_into_code_without_lines() {
    for binding in ["lazy", "now"] {
        let recorded = user_of_libraries(&format!("query-stubs-{binding}"), binding);
        recorded.object(&["goto", "start func_enter main"]);
        let last = line_of(USER, "return sum");
        let mut seen = Vec::new();
        while seen.last() != Some(&("main".to_owned(), last)) {
            assert!(seen.len() < 40, "{binding}: {seen:?}");
            let step = recorded.object(&["step"]);
            let function = step["function"].as_str().unwrap().to_owned();
            seen.push((function, step["line"].as_u64().unwrap()));
        }
        let lines_of = |wanted: &str| -> Vec<u64> {
            let lines = seen.iter().filter(|(function, _)| function == wanted);
            lines.map(|(_, line)| *line).collect()
        };
        let body = line_of(LIBRARY, "return 2");
        assert_eq!(lines_of("twice"), [body - 1, body, body + 1].repeat(2), "{binding}: {seen:?}");
        assert_eq!(lines_of("main"), [last - 3, last - 2, last - 1, last], "{binding}: {seen:?}");
        assert_eq!(lines_of("half"), [0u64; 0], "{binding}: {seen:?}");
    }
}

#[test]
fn steps_in_code_without_lines_go_to_the_next_line() {
    let recorded = user_of_libraries("query-no-lines", "now");
    let called = recorded.object(&["goto", "start func_enter apply"]);
    let apply = called["time"].to_string();
    // What is called from there has lines, and so has what called it.
    let into = recorded.object(&["step", "--at", &apply]);
    assert_eq!((&into["function"], &into["line"]), (&"half".into(), &6.into()));
    let call = line_of(USER, "apply(half");
    let over = recorded.object(&["step", "--over", "--at", &apply]);
    assert_eq!((&over["function"], &over["line"]), (&"main".into(), &call.into()));
    assert!(over["time"].as_u64() > into["time"].as_u64());
    let back = recorded.object(&["step", "--reverse", "--at", &apply]);
    assert_eq!((&back["function"], &back["line"]), (&"main".into(), &call.into()));
    assert!(back["time"].as_u64() < called["time"].as_u64());
    // From one call of it to the next.
    let half = recorded.objects(&["calls", "half"]);
    let end = recorded.object(&["step", "-n", "2", "--at", &half[0]["time"].to_string()]);
    assert_eq!((&end["function"], &end["line"]), (&"half".into(), &8.into()));
    let next = recorded.object(&["step"]);
    assert_eq!(next["time"], half[1]["time"]);
}

#[test]
fn without_any_lines_steps_say_what_to_do() {
    let compiler = ["cc", "-O0", "-static", "-nostdlib"];
    let source =
        "void _start(void) { __asm__ volatile(\"mov $60, %eax; xor %edi, %edi; syscall\"); }";
    let recorded = Recorded::new("query-no-debug", "bare.c", source, &compiler);
    let complaint = recorded.complaint(&["step", "--at", "start"]);
    assert!(complaint.contains("no source line behind time 0"), "{complaint}");
    assert!(complaint.contains("--instruction"), "{complaint}");
    assert_eq!(recorded.object(&["step", "--instruction", "--at", "start"])["time"], 1);
}
