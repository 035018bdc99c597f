//! The language of expressions: what is read, what is refused and how, and arithmetic against a C compiler.

mod scene;

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use proptest::prelude::*;
use retro_symbols::{EvaluationError, Expression, FormatOptions, Machine, Number, Scope, Value};
use scene::Scene;

/// Neither variables nor memory.
struct Nowhere;

impl Machine for Nowhere {
    fn register(&self, number: u16) -> Option<u64> {
        (number == 0).then_some(0x1122_3344_5566_7788)
    }

    fn vector(&self, _: u16) -> Option<[u8; 16]> {
        None
    }

    fn fs_base(&self) -> Option<u64> {
        None
    }

    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

impl Scope for Nowhere {
    fn machine(&self) -> &dyn Machine {
        self
    }
}

fn evaluate(text: &str) -> Result<Value, EvaluationError> {
    Expression::parse(text)?.evaluate(&Nowhere)
}

fn print(text: &str) -> String {
    match evaluate(text) {
        Ok(value) => value.format(&Nowhere, &FormatOptions::default()),
        Err(error) => format!("ERROR {error}"),
    }
}

#[test]
fn operators_bind_as_in_c() {
    for (text, tree) in [
        ("1+2*3", "1 + (2 * 3)"),
        ("a - b - c", "(a - b) - c"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        (
            "a || b && c | d ^ e & f == g < h << i + j * k",
            "a || (b && (c | (d ^ (e & (f == (g < (h << (i + (j * k)))))))))",
        ),
        ("*p->q[3].r", "*p->q[3].r"),
        ("&a[1]", "&a[1]"),
        ("-x.y", "-x.y"),
        ("*p@10", "(*p) @ 10"),
        ("a + b @ c", "(a + b) @ c"),
        ("(struct foo *)p->q", "(struct foo *) p->q"),
        ("(unsigned long)x + 1", "((unsigned long) x) + 1"),
        ("(a) + b", "a + b"),
        ("(T)x", "(T) x"),
        ("(T)(x)", "(T) x"),
        ("(T *)-x", "(T *) (-x)"),
        ("(size_t)-1", "(size_t) (-1)"),
        ("(const char *const *)p", "(const char * const *) p"),
        ("(int (*)[3])p", "(int (*)[3]) p"),
        ("(int (*)(int, char *))p", "(int (*)()) p"),
        ("(std::vector<int, A<B> >)x", "(std::vector<int, A<B> >) x"),
        ("Pair<int>::made", "Pair<int>::made"),
        ("a<b", "a < b"),
        ("a<b && c>d", "(a < b) && (c > d)"),
        ("sizeof x", "sizeof (x)"),
        ("sizeof(int) * 2", "(sizeof (int)) * 2"),
        ("sizeof (x).y", "sizeof (x.y)"),
        ("{int} 5 + 1", "({int} 5) + 1"),
        ("'a.c'::b", "'a.c'::b"),
        ("x as u8 + 1", "((u8) x) + 1"),
        ("x as *const u8", "(u8 *) x"),
        ("t.0.1", "t.0.1"),
        ("0x1fu", "0x1fu"),
        ("1e3f", "1e3f"),
        ("2e311->a", "(1e999)->a"),
        ("x as T & &", "(T &) x"),
        ("::a as T", "(T) ::a"),
        ("('a').1", "'a'.1"),
        ("class * union", "class * union"),
        ("(class) - union", "class - union"),
        ("x->class", "x->class"),
        ("!~-+x", "!(~(-(+x)))"),
        ("::g", "::g"),
        ("$rax & 0xff", "$rax & 0xff"),
        ("\"a\\\"b\\n\" == s", "\"a\\042b\\012\" == s"),
        ("L'x' + '\\n'", "L'x' + '\\xa'"),
    ] {
        let parsed = Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parsed.to_string(), tree, "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    for (text, message, position) in [
        ("", "a value is missing here", 0),
        ("a +", "a value is missing here", 3),
        ("a + )", "a value is expected here, not `)`", 4),
        ("(a", "this parenthesis is not closed", 0),
        ("a[1", "`]` is expected here, not the end", 3),
        (
            "a = 1",
            "a recording cannot be changed: there are no assignments; to compare, write `==`",
            2,
        ),
        (
            "a += 1",
            "a recording cannot be changed: there are no assignments; to compare, write `==`",
            2,
        ),
        ("a++", "a recording cannot be changed: there is no `++` and no `--`", 1),
        ("f(1)", "functions cannot be called: their results are in the recording", 1),
        ("a.f()", "functions cannot be called: their results are in the recording", 3),
        ("a, b", "one expression at a time: there is no `,`", 1),
        ("a b", "an operator is expected here, not `b`", 2),
        ("a.", "the name of a member is expected behind `.`", 2),
        ("'ab'", "a character constant holds one character; strings have double quotes", 0),
        ("\"ab", "this quote is not closed", 0),
        ("0x", "the digits of this number are missing", 0),
        ("089", "this number is no octal number of 128 bits: it begins with `0`", 0),
        ("12abc", "`abc` is no suffix of a number", 0),
        ("a # b", "this character means nothing in an expression", 2),
        ("$", "the name of a register is missing behind `$`", 1),
        ("struct", "`struct` belongs to a type: casts are written `(type) value`", 0),
        ("sizeof struct::a", "`struct` belongs to a type: casts are written `(type) value`", 7),
        ("class a", "`class` belongs to a type: casts are written `(type) value`", 0),
        ("a * const", "`const` belongs to a type: casts are written `(type) value`", 4),
        ("a * volatile", "`volatile` belongs to a type: casts are written `(type) value`", 4),
    ] {
        let error = Expression::parse(text).expect_err(text);
        assert_eq!((error.message.as_str(), error.position), (message, position), "{text}");
        let shown = error.to_string();
        let mark = shown.lines().last().unwrap();
        assert_eq!(mark.chars().count(), 2 + position + 1, "{shown}");
    }
}

#[test]
fn expressions_are_bounded() {
    for text in [
        "(".repeat(10_000),
        "-".repeat(10_000),
        format!("1{}", "+1".repeat(5_000)),
        format!("a{}", "[a".repeat(3_000)),
        format!("a{}", ".b".repeat(5_000)),
        format!("{}x", "(int)".repeat(2_000)),
        format!("a{}", "?a:a".repeat(2_000)),
        format!("({}", "unsigned ".repeat(1_000)),
        format!("(int{})x", "*".repeat(5_000)),
        format!("(int {}", "(*".repeat(5_000)),
        "a<".repeat(5_000),
        "x".repeat(100_000),
    ] {
        if let Ok(parsed) = Expression::parse(&text) {
            let _ = parsed.evaluate(&Nowhere);
            let _ = parsed.to_string();
        }
    }
}

#[test]
fn errors_of_evaluation_say_what_to_do() {
    for (text, part) in [
        ("nobody", "no variable `nobody`"),
        ("(nothing *) 0", "no type `nothing`"),
        ("$xyz", "no register `$xyz`"),
        ("$rbx", "`$rbx` is not known in this frame"),
        ("1 / 0", "division by zero"),
        ("5 % 0u", "division by zero"),
        ("*(int *) 16 + 1", "Cannot access memory at address 0x10"),
        ("&5", "not in memory"),
        ("1.5 % 2", "`%` takes integers"),
        ("5.x", "it has no members"),
        ("(5).x", "it has no members"),
        ("~1.5", "`~` takes an integer"),
        ("1 << 1.5", "a shift is by an integer"),
        ("*(void *) 0", "cast it"),
        ("int", "`int` is a type"),
    ] {
        let shown = print(text);
        assert!(shown.starts_with("ERROR") && shown.contains(part), "{text}: {shown}");
    }
    assert_eq!(print("$rax"), "1234605616436508552");
    assert_eq!(print("$eax"), "1432778632");
    assert_eq!(print("$al"), "-120");
    assert_eq!(print("/x"), "ERROR a value is expected here, not `/`\n  /x\n  ^");
}

#[test]
fn numbers_of_all_widths() {
    for (text, shown) in [
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709551616"),
        ("170141183460469231731687303715884105728", "170141183460469231731687303715884105728"),
        ("(__int128) -1", "-1"),
        ("1u128 << 127", "170141183460469231731687303715884105728"),
        ("0b1010", "10"),
        ("0o17", "15"),
        ("1_000_000", "1000000"),
        ("255u8 as i8", "-1"),
        ("(long double) 1 / 3", "0.33333333333333331483"),
        ("1.5l", "1.5"),
        ("(float) 16777217", "16777216"),
        ("(bool) 0.5", "true"),
        ("(char) 'a'", "97 'a'"),
        ("1e400", "inf"),
        ("0x7fffffff + 1", "-2147483648"),
        ("0xffffffff + 1", "0"),
        ("4294967295 + 1", "4294967296"),
    ] {
        assert_eq!(print(text), shown, "{text}");
    }
}

/// Numbers that repeat from run to run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn number(&mut self) -> u64 {
        let bits = self.below(64) as u32;
        ((self.below(1 << 30) as u64) << 34 | (self.below(1 << 30) as u64) << 4) >> bits
    }

    fn leaf(&mut self) -> String {
        const CASTS: &[&str] = &[
            "signed char",
            "unsigned char",
            "short",
            "unsigned short",
            "int",
            "unsigned int",
            "long",
            "unsigned long",
            "long long",
            "unsigned long long",
            "char",
        ];
        match self.below(6) {
            0 => self.below(100).to_string(),
            1 => format!("{}ul", self.number()),
            2 => format!("{:#x}", self.number()),
            3 => format!("{}u", self.below(1 << 31)),
            4 => format!("(({}) {:#x})", CASTS[self.below(CASTS.len())], self.number()),
            _ => format!("(({}) -{})", CASTS[self.below(CASTS.len())], self.below(1000)),
        }
    }

    fn float(&mut self) -> String {
        let number = self.below(100_000) as f64 / 64.0;
        format!("{number:?}{}", if self.below(2) == 0 { "f" } else { "" })
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf();
        }
        let left = self.expression(depth - 1);
        let other_depth = self.below(depth);
        let right = self.expression(other_depth);
        match self.below(12) {
            0 => format!("(-{left})"),
            1 => format!("(~{left})"),
            2 => format!("(!{left})"),
            3 => format!("({left} {} {})", ["<<", ">>"][self.below(2)], self.below(32)),
            4 => format!("({left} {} {})", ["/", "%"][self.below(2)], 1 + self.below(1000)),
            5 => format!("({left} ? {left} : {right})").replace(&format!("? {left} :"), "? 3 :"),
            6 => format!("({left} {} {right})", ["<", ">", "<=", ">=", "==", "!="][self.below(6)]),
            7 => format!("({left} {} {right})", ["&&", "||"][self.below(2)]),
            _ => format!("({left} {} {right})", ["+", "-", "*", "&", "|", "^"][self.below(6)]),
        }
    }

    fn float_expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return if self.below(3) == 0 { self.below(100).to_string() } else { self.float() };
        }
        let other_depth = self.below(depth);
        let (left, right) = (self.float_expression(depth - 1), self.float_expression(other_depth));
        match self.below(6) {
            0 => format!("(-{left})"),
            1 => format!("({left} < {right})"),
            2 => format!("((float) {left})"),
            _ => format!("({left} {} {right})", ["+", "-", "*"][self.below(3)]),
        }
    }
}

/// A thousand expressions mean the same here and to gcc: type and value.
#[test]
fn arithmetic_is_that_of_the_compiler() {
    let mut dice = Dice(2024);
    let mut expressions: Vec<String> =
        (0..700).map(|round| dice.expression(1 + round % 4)).collect();
    expressions.extend((0..300).map(|round| dice.float_expression(1 + round % 4)));
    let mut source = String::from(
        "#include <stdio.h>
        #define SHOW(e) _Generic((e), int: i(sizeof(e), (long long)(e)), long: i(sizeof(e), (long long)(e)), \\
            long long: i(sizeof(e), (long long)(e)), unsigned: u(sizeof(e), (unsigned long long)(e)), \\
            unsigned long: u(sizeof(e), (unsigned long long)(e)), unsigned long long: u(sizeof(e), (unsigned long long)(e)), \\
            char: i(sizeof(e), (long long)(e)), signed char: i(sizeof(e), (long long)(e)), short: i(sizeof(e), (long long)(e)), \\
            unsigned char: u(sizeof(e), (unsigned long long)(e)), unsigned short: u(sizeof(e), (unsigned long long)(e)), \\
            float: f(sizeof(e), (double)(e)), double: f(sizeof(e), (double)(e)))
        static void i(int s, long long v) { printf(\"%d i %lld\\n\", s, v); }
        static void u(int s, unsigned long long v) { printf(\"%d u %llu\\n\", s, v); }
        static void f(int s, double v) { printf(\"%d f %.17g\\n\", s, v); }
        int main(void) {\n",
    );
    for expression in &expressions {
        writeln!(source, "SHOW({expression});").unwrap();
    }
    source.push_str("return 0; }\n");
    let scene = Scene::new();
    let program = scene.compile("oracle.c", &source, &["-w", "-O0", "-fwrapv"]);
    let output = Command::new(&program.path).output().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), expressions.len());
    let mut wrong = Vec::new();
    for (expression, answer) in expressions.iter().zip(answers.lines()) {
        let value = evaluate(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let size = value.ty.size().unwrap();
        let ours = match value.number(&Nowhere).unwrap().unwrap() {
            Number::Signed(number) => format!("{size} i {number}"),
            Number::Unsigned(number) => format!("{size} u {number}"),
            Number::Float(_) => {
                let double = evaluate(&format!("(double) {expression}")).unwrap();
                format!("{size} f {}", double.format(&Nowhere, &FormatOptions::default()))
            }
        };
        if ours != answer {
            wrong.push(format!("{expression}: {ours}, not {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), expressions.len(), wrong.join("\n"));
    let _ = fs::remove_file(&program.path);
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "a", "b::c", "x<int>", "::", "1", "0x1f", "1.5f", "2e3", "'a'", "'f.c'::", "\"s\"", "$rax",
        "(", ")", "[", "]", "{", "}", "*", "&", "&&", "||", "+", "-", "->", ".", ".0", "?", ":",
        "<", ">", "<<", ">>", "==", "=", "!", "~", "@", ",", "int", "unsigned", "struct", "const",
        "sizeof", "as", "u8", "size_t", "true", "\\", "'", "\"", "é", "#",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_does_harm(text in "\\PC{0,60}") {
        check_text(&text);
    }

    #[test]
    fn no_words_do_harm(text in words()) {
        check_text(&text);
    }

    #[test]
    fn no_words_without_spaces_do_harm(text in words()) {
        check_text(&text.replace(' ', ""));
    }
}

/// What parses can be evaluated, and parses to the same when it is written out.
fn check_text(text: &str) {
    match Expression::parse(text) {
        Ok(parsed) => {
            let written = parsed.to_string();
            let again =
                Expression::parse(&written).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(again.to_string(), written, "{text:?}");
            if let Ok(value) = parsed.evaluate(&Nowhere) {
                let _ = value.format(&Nowhere, &FormatOptions::default());
            }
        }
        Err(error) => {
            assert!(error.position <= text.len());
            let _ = error.to_string();
        }
    }
}
