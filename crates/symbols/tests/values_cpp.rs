//! Values of C++ programs, compared with what gdb prints with the printers of libstdc++.

mod scene;
mod values_inferior;

use scene::Scene;
use values_inferior::{Inferior, line_of};

const SOURCE: &str = r#"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

enum Color { RED, GREEN, BLUE };
enum class Scoped : unsigned char { One = 1, Two };
namespace ns {
    enum Inner { First, Second };
    int global = 5;
    struct Holder { int a; static int count; enum Kind { K1, K2 } kind; };
    int Holder::count = 7;
    namespace deep { static double value = 2.5; }
}
namespace { int hidden = 11; }
struct Base { virtual ~Base() {} int b = 1; };
struct Other { long o = 9; };
struct Derived : Base, Other {
    int d = 2; int &r; unsigned f1 : 3; int f2 : 5;
    Derived(int &x) : r(x) { f1 = 5; f2 = -3; }
    int method(int argument);
};
struct Empty {};
struct OnlyBase : Other {};
struct Virtual : virtual Base { int v = 4; };
struct Anonymous { union { int i; float f; }; struct { char c; } in; };
template <typename T> struct Pair { T first; T second; static int made; };
template <typename T> int Pair<T>::made = 3;
class Secret { int hidden = 1; protected: char shown = 'x'; public: bool open = true; };

int free_function(int x) { return x; }
int overloaded(int x) { return x; }
int overloaded(double x) { return x; }
static thread_local int per_thread = 12;

int Derived::method(int argument) {
    int local = argument + d;
    return local + b + per_thread; // METHOD
}

int main() {
    Color color = GREEN, odd = (Color)9; Scoped scoped = Scoped::Two; ns::Inner inner = ns::Second;
    int i = -5; int &reference = i; int &&rvalue = 5; const int &constant = i; bool truth = true;
    wchar_t wide = L'x'; char16_t sixteen = u'y'; char32_t thirty_two = U'z'; char8_t eight = u8'q';
    wchar_t wide_text[] = L"wide"; char16_t text16[] = u"sixteen"; char32_t text32[] = U"more"; const wchar_t *wide_pointer = wide_text;
    int (*function)(int) = free_function; int Derived::*member = &Derived::d; void (Derived::*nowhere)() = nullptr;
    Derived derived(i); Base *base = &derived; Base &base_reference = derived; Derived *pointer = &derived; Empty empty; OnlyBase only; Virtual virtual_base;
    Anonymous anonymous; anonymous.i = 3; anonymous.in.c = 'q'; Pair<int> pair{1, 2}; Pair<Pair<char>> pairs{{'a', 'b'}, {'c', 'd'}}; Secret secret;
    std::string text = "a string", empty_text, long_text(300, 'z'), with_zero("a\0b", 3); const std::string &text_reference = text;
    std::string_view view = text; std::vector<int> numbers{1, 2, 3}, none; std::vector<std::string> texts{"one", "two"};
    std::vector<Pair<int>> structures{{1, 2}, {3, 4}}; std::vector<int> *numbers_pointer = &numbers; std::vector<double> doubles(20);
    std::unique_ptr<int> unique(new int(5)); std::shared_ptr<int> shared(new int(6)), second = shared, no_share; std::unique_ptr<Derived> owner(new Derived(i));
    ns::Holder holder{3, ns::Holder::K2}; void *null = nullptr; std::nullptr_t nothing = nullptr; auto closure = [&](int q) { return q + i; };
    int array[3] = {1, 2, 3}; int (&array_reference)[3] = array; const char *names[] = {"n1", "n2"}; long double extended = 1.25L; ns::Holder::Kind kind = ns::Holder::K1;
    derived.method(3);
    return free_function(0) + closure(1) + hidden + (int)ns::deep::value + overloaded(1) + overloaded(1.0) + Pair<int>::made; // STOP
}
"#;

const QUESTIONS: &[&str] = &[
    "color",
    "odd",
    "scoped",
    "inner",
    "i",
    "reference",
    "rvalue",
    "constant",
    "truth",
    "wide",
    "sixteen",
    "thirty_two",
    "eight",
    "wide_text",
    "text16",
    "text32",
    "wide_pointer",
    "function",
    "nowhere",
    "derived",
    "base",
    "base_reference",
    "pointer",
    "empty",
    "only",
    "virtual_base",
    "anonymous",
    "pair",
    "pairs",
    "secret",
    "text",
    "empty_text",
    "long_text",
    "with_zero",
    "text_reference",
    "view",
    "numbers",
    "none",
    "texts",
    "structures",
    "unique",
    "shared",
    "second",
    "no_share",
    "holder",
    "null",
    "closure",
    "array",
    "array_reference",
    "names",
    "extended",
    "kind",
    "hidden",
    "ns::global",
    "ns::deep::value",
    "ns::Holder::count",
    "per_thread",
    "&reference",
    "reference + 1",
    "&derived",
    "derived.b",
    "pointer->d",
    "pointer->Base::b",
    "base->b",
    "*base",
    "*pointer",
    "derived.r",
    "&derived.r",
    "derived.f2",
    "derived.o",
    "(Base *)pointer",
    "(Other *)pointer",
    "(Derived *)base",
    "*(Derived *)base",
    "(Derived *)(Other *)pointer",
    "&text",
    "&numbers",
    "*numbers_pointer",
    "numbers_pointer",
    "array_reference[1]",
    "ns::Second",
    "Scoped::Two",
    "RED",
    "color == GREEN",
    "truth && !truth",
    "1 == 1",
    "sizeof(Derived)",
    "sizeof(Pair<int>)",
    "(ns::Holder *)0",
    "*(Pair<int> *)&pair",
    "Pair<int>::made",
    "sizeof(ns::Holder)",
    "free_function",
    "&ns::global",
    "&ns::Holder::count",
    "constant * 2",
    "pair.first + pairs.second.second",
    "holder.kind",
    "ns::Holder::K2",
    "anonymous.f",
    "anonymous.in",
    "virtual_base.v",
    "virtual_base.b",
    "/x numbers",
    "/r numbers",
    "/r unique",
    "/x scoped",
    "/d scoped",
    "/c wide",
    "*names@2",
    "(int)scoped",
    "true",
    "false",
    "extended * 2",
    "member",
    "main",
];

#[track_caller]
fn check(options: &[&str]) {
    let scene = Scene::new();
    let program = scene.compile("values.cpp", SOURCE, &[&["-w", "-std=c++20"], options].concat());
    let place = line_of("values.cpp", SOURCE, "STOP");
    let inferior = Inferior::stop(&scene, &program.path, &place, 0, QUESTIONS);
    inferior.check(QUESTIONS);
    inferior.check_locals(&["doubles", "nothing"]);
}

#[test]
fn dwarf_5() {
    check(&["-g", "-gdwarf-5", "-O0"]);
}

#[test]
fn dwarf_4_with_type_units() {
    check(&["-g", "-gdwarf-4", "-fdebug-types-section", "-O0"]);
}

#[test]
fn methods_see_the_members_of_their_object() {
    let questions =
        ["this", "*this", "d", "b", "f2", "argument", "local", "this->r", "local + d", "o"];
    let scene = Scene::new();
    let program = scene.compile("values.cpp", SOURCE, &["-w", "-std=c++20", "-g", "-O0"]);
    let place = line_of("values.cpp", SOURCE, "METHOD");
    let inferior = Inferior::stop(&scene, &program.path, &place, 0, &questions);
    inferior.check(&questions);
    inferior.check_locals(&["doubles", "nothing"]);
}

#[test]
fn containers_are_looked_into() {
    let scene = Scene::new();
    let program = scene.compile("values.cpp", SOURCE, &["-w", "-std=c++20", "-g", "-O0"]);
    let place = line_of("values.cpp", SOURCE, "STOP");
    let inferior = Inferior::stop(&scene, &program.path, &place, 0, &[]);
    for (question, answer) in [
        ("numbers[1]", "2"),
        ("doubles", "std::vector of length 20, capacity 20 = {0 <repeats 20 times>}"),
        ("texts[1]", "\"two\""),
        ("structures[1].second", "4"),
        ("*unique", "5"),
        ("*shared + 1", "7"),
        ("owner->d", "2"),
        ("text == \"a string\"", "true"),
        ("text_reference != \"another\"", "true"),
        ("names[1] == \"n2\"", "true"),
    ] {
        assert_eq!(inferior.print(question).unwrap(), answer, "{question}");
    }
}
