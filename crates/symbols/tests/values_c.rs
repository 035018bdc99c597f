//! Values of C programs, compared with what gdb prints.

mod scene;
mod values_inferior;

use scene::Scene;
use values_inferior::{Inferior, line_of};

const SOURCE: &str = r#"
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum color { RED, GREEN, BLUE };
enum flags { FA = 1, FB = 2, FC = 4 };
enum wide { WM = -5, WX = 70000 };
struct point { int x, y; };
struct node { struct node *next; int value; char name[8]; };
union number { int i; float f; unsigned char bytes[4]; };
struct bits { unsigned a : 3; int b : 5; unsigned long c : 40; _Bool d : 1; unsigned char e; };
struct flexible { int length; int data[]; };
struct anonymous { int kind; union { int i; double d; }; struct { short s; char t; } in; };
struct opaque;
typedef struct { int inner; } unnamed_t;
typedef int (*operation)(int, int);
typedef unsigned char byte;

int global = 42;
static int file_static = 7;
int table[3][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
const char *names[] = { "one", "two", NULL };
const char fixed[5] = "abcd"; const int grid[2][3] = { { 1 } }; const volatile short both[2]; char *const pointers[2]; const char *const *const deep[2];
struct point points[4] = { { 1, 2 }, { 3, 4 } };
char text_buffer[32] = "in a buffer";
double zeroes[40];
_Thread_local int per_thread = 99;

static int add(int a, int b) { return a + b; }
static int counted(void) { static int calls = 3; return ++calls; }

int stop(int argc, char **argv, struct point by_value, const struct node *list) {
    enum color color = GREEN, odd = 9; enum flags flags = FA | FC, more = FA | 64, none = 0; enum wide wide = WM;
    int i = -5; unsigned u = 4000000000u; long l = -1; unsigned long ul = -1; short s = -300; unsigned short us = 65535;
    char c = 'a', zero = 0, newline = '\n', high = '\xe9'; signed char sc = -1; unsigned char uc = 200; byte b = 65;
    _Bool yes = 1; bool no = 0; float f = 1.1f; double d = 1.1; long double ld = 1.1L; double third = 1.0 / 3;
    double nan_value = NAN, minus = -INFINITY, tiny = 1e-310, huge = 1e300, whole = 100; float negative_zero = -0.0f;
    __int128 big = (__int128)1 << 100; unsigned __int128 all = -1; double complex z = 1 + 2 * I; float complex zf = 3;
    char *string = "hello\n\"world\" \001" "1\033x\\"; char buffer[8] = "abc"; char empty[20] = ""; char *null = NULL;
    char repeats[40]; memset(repeats, 'x', 20); memset(repeats + 20, 'y', 20);
    char longer[300]; for (int k = 0; k < 300; k++) longer[k] = 'a' + k % 26;
    char ten[11] = "aaaaaaaaaa", eleven[12] = "aaaaaaaaaaa"; char mixed[40] = "abccccccccccccccccccccd";
    int numbers[30] = { 0, 0, 0, 5 }; int nine[9] = { 0 }; int exactly_ten[10] = { 0 }; int many[300]; for (int k = 0; k < 300; k++) many[k] = k;
    int *p = &i; int **pp = &p; void *v = p; int (*fp)(int, int) = add; operation op = add; int (*pa)[2] = table;
    int (*farray[2])(int, int) = { add, 0 }; const volatile int *cvp = &i; int *const cp = &i; const char *const ccp = "const";
    struct node second = { NULL, 2, "second" }, first = { &second, 1, "first" }; struct node *head = &first;
    union number number = { .f = 1.5f }; struct bits bits = { 5, -3, 0x1234567890, 1, 9 };
    struct flexible *flexible = malloc(sizeof *flexible + 12); flexible->length = 3; for (int k = 0; k < 3; k++) flexible->data[k] = k * k;
    struct anonymous anonymous = { 1, { .d = 2.5 }, { 3, 't' } }; unnamed_t unnamed = { 8 };
    struct opaque *opaque = (struct opaque *)p; wchar_t wide_text[6] = L"wide"; wchar_t wide_runs[40] = L"ab"; wide_runs[38] = L'z'; char exact[201]; memset(exact, 'e', 200); exact[200] = 0; char padded[210]; memset(padded, 'l', 200); memset(padded + 200, 0, 10); char *spaced = malloc(300); memset(spaced, ' ', 250); memset(spaced, 's', 5); strcpy(spaced + 220, "end"); wchar_t wc = L'x'; wchar_t *wp = wide_text;
    int n = argc + 4; int vla[n]; for (int k = 0; k < n; k++) vla[k] = k * 10; int vla2[n][2]; memset(vla2, 0, sizeof vla2); vla2[1][1] = 3;
    uint8_t u8 = 66; int64_t i64 = INT64_MIN; size_t size = 123; uintptr_t ip = (uintptr_t)p; char *bad = (char *)16;
    struct point pair[2] = { { 1, 2 }, { 1, 2 } }; struct point same[12]; memset(same, 0, sizeof same);
    { int i = 77; int inner = i; struct point *pointed = &by_value;
      counted(); per_thread++; return i + inner + add(i, inner) + pointed->x + n + head->value; /* STOP */ }
}

int main(int argc, char **argv) {
    struct node list = { NULL, 5, "list" };
    struct point point = { 10, 20 };
    zeroes[3] = 2.5;
    return stop(argc, argv, point, &list) == 0;
}
"#;

const QUESTIONS: &[&str] = &[
    "color",
    "odd",
    "flags",
    "more",
    "none",
    "wide",
    "wide_runs",
    "exact",
    "padded",
    "spaced",
    "i",
    "u",
    "l",
    "ul",
    "s",
    "us",
    "c",
    "zero",
    "newline",
    "high",
    "sc",
    "uc",
    "b",
    "yes",
    "no",
    "f",
    "d",
    "ld",
    "third",
    "nan_value",
    "minus",
    "tiny",
    "huge",
    "whole",
    "negative_zero",
    "big",
    "all",
    "z",
    "zf",
    "string",
    "buffer",
    "empty",
    "null",
    "repeats",
    "longer",
    "ten",
    "eleven",
    "mixed",
    "numbers",
    "nine",
    "exactly_ten",
    "many",
    "p",
    "pp",
    "v",
    "fp",
    "op",
    "pa",
    "farray",
    "cvp",
    "cp",
    "ccp",
    "second",
    "first",
    "head",
    "number",
    "bits",
    "flexible",
    "*flexible",
    "anonymous",
    "unnamed",
    "opaque",
    "wide_text",
    "wc",
    "wp",
    "n",
    "vla",
    "vla2",
    "u8",
    "i64",
    "size",
    "ip",
    "bad",
    "pair",
    "same",
    "inner",
    "pointed",
    "by_value",
    "list",
    "argc",
    "global",
    "file_static",
    "table",
    "names",
    "fixed",
    "&fixed",
    "grid",
    "&grid",
    "both",
    "&both",
    "pointers",
    "&pointers",
    "deep",
    "&deep",
    "points",
    "text_buffer",
    "zeroes",
    // Addresses, members, elements.
    "&global",
    "&table",
    "&table[1]",
    "&i",
    "&head->next",
    "*head",
    "head->next->name",
    "head->name[1]",
    "(*head).value",
    "head->next->next",
    "table[1]",
    "table[2][1]",
    "*table",
    "names[1]",
    "*names@2",
    "points[1].y",
    "&points[1]",
    "numbers[3]",
    "*&i",
    "*p",
    "**pp",
    "p[0]",
    "flexible->data[2]",
    "*flexible->data@3",
    "number.bytes",
    "bits.c",
    "anonymous.d",
    "anonymous.in.t",
    "pointed->y",
    "list->name",
    "&buffer",
    "&buffer[1]",
    "*string@3",
    "string[4]",
    "pa[1]",
    "*pa",
    "many[299]",
    "*many@5",
    "vla[2]",
    "sizeof(vla)",
    "&vla[1]",
    "zeroes[3]",
    "&pair[1].y",
    // Functions.
    "add",
    "&add",
    "*add",
    "fp == add",
    "main",
    "*op",
    "&main",
    // Numbers.
    "1",
    "-1",
    "0x10",
    "010",
    "0b101",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "1.5",
    "1.5f",
    "1e3",
    "'a'",
    "'\\n'",
    "\"abc\"",
    "5/2",
    "-5/2",
    "-5%3",
    "5.0/2",
    "1==1",
    "1!=1",
    "!5",
    "!0",
    "~0",
    "-5 >> 1",
    "1<<31",
    "1ul<<40",
    "5u-6",
    "2147483647+1",
    "2147483648+1",
    "i+1",
    "i*2.5",
    "u+i",
    "l<ul",
    "s+us",
    "c+1",
    "'a'+1",
    "3>2 && 1",
    "0||0",
    "i?1:2",
    "i<0?-i:i",
    "i&255",
    "i|1",
    "i^i",
    "f+d",
    "f*2",
    "(float)1/3",
    "uc<<4",
    "sc>>1",
    "1.0f/3",
    "7%3",
    "u/3",
    "i64-1",
    "-u",
    "~uc",
    "-sc",
    "all",
    "c=='a'",
    "color==GREEN",
    "GREEN",
    "(enum color)2",
    "FA|FB",
    "color+1",
    "d>1",
    "nan_value==nan_value",
    "3 * (4 + 5)",
    "10 - 2 - 3",
    "2 + 3 * 4",
    "1 << 2 + 1",
    "1 | 2 ^ 3 & 4",
    // Pointers.
    "p+1",
    "p-1",
    "&many[3]-&many[0]",
    "p==&i",
    "p!=0",
    "head==0",
    "v",
    "*(int*)v",
    "(long)p==(long)v",
    "many+2",
    "*(many+2)",
    "string+6",
    "&table[1][0]-&table[0][0]",
    "p<p+1",
    "(char*)p==p",
    "null==0",
    "!null",
    "!string",
    // Casts, sizes, other views.
    "(char)65",
    "(unsigned char)300",
    "(int)2.9",
    "(int)-2.9",
    "(unsigned)-1",
    "(short)70000",
    "(long)i",
    "(float)i",
    "(double)f",
    "(_Bool)5",
    "(struct point *)points",
    "*(struct point *)points",
    "(char*)string",
    "(void*)p",
    "(unsigned long)ul",
    "(byte)321",
    "(uint8_t)66",
    "(int64_t)5",
    "(size_t)-1",
    "(operation)fp",
    "{int} p",
    "{struct point} points",
    "{char[4]} string",
    "sizeof(int)",
    "sizeof(struct node)",
    "sizeof buffer",
    "sizeof(union number)",
    "sizeof(i)",
    "sizeof(byte)",
    "(const char *)string",
    "(struct node *)0",
    "(enum flags)5",
    "(long long)i",
    "(int (*)[3])p",
    "counted::calls",
    "'values.c'::file_static",
    "stop::n",
    // Formats.
    "/x i",
    "/x u",
    "/d u",
    "/u i",
    "/o uc",
    "/t uc",
    "/c i",
    "/c 65",
    "/c buffer",
    "/d buffer",
    "/x buffer",
    "/x p",
    "/d p",
    "/a fp",
    "/a &global",
    "/x points",
    "/x color",
    "/d color",
    "/x *head",
    "/x d",
    "/f i64",
    "/f f",
    "/f 1",
    "/z s",
    "/z 5",
    "/t 0",
    "/o 0",
    "/x -1",
    "/x c",
    "/d c",
    "/u sc",
    "/s buffer",
    "/s string",
    "/x yes",
    "/x bits",
    "/x numbers",
    "/c uc",
    "/x flags",
    "/x 1.5",
    "/x big",
    "/d 'a'",
    "/t i",
    "/x many[255]",
    "/d yes",
    "/x *head->next@1",
    "/c 'z'",
    // Registers.
    "$rip",
    "$pc",
    "$sp",
    "$rsp",
    "$fp",
    "$rbp",
    "$rax",
    "$eax",
    "$ax",
    "$al",
    "$rdi",
    "$r8",
    "$r15d",
    "$rsp+8",
    "*(long*)$rsp",
    "$xmm0.v4_float",
    "$xmm0.v2_int64",
    "$xmm1.uint128",
    "(int)$rax",
    "$fs_base",
    // What is wrong.
    "nothing",
    "head->nothing",
    "*v",
    "i.x",
    "5[3]",
    "&5",
    "1/0",
    "*bad",
    "(struct nothing *)p",
    "i->x",
    "*0",
];

#[track_caller]
fn check(options: &[&str]) {
    let scene = Scene::new();
    let program = scene.compile("values.c", SOURCE, &[&["-w", "-lm"], options].concat());
    let place = line_of("values.c", SOURCE, "STOP");
    let inferior = Inferior::stop(&scene, &program.path, &place, 0, QUESTIONS);
    inferior.check(QUESTIONS);
    inferior.check_locals(&[]);
    // gdb does not find it in split debug information.
    assert_eq!(inferior.print("per_thread").unwrap(), "99");
}

#[test]
fn dwarf_5() {
    check(&["-g", "-gdwarf-5", "-O0"]);
}

#[test]
fn dwarf_4() {
    check(&["-g", "-gdwarf-4", "-gstrict-dwarf", "-O0", "-no-pie"]);
}

#[test]
fn split_debug_information() {
    check(&["-g", "-gdwarf-5", "-gsplit-dwarf", "-O0"]);
}

#[test]
fn old_split_debug_information_with_type_units() {
    check(&["-g", "-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section", "-O0"]);
}
