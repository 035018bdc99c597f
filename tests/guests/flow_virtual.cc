// C++ dispatch: virtual calls over many classes, multiple and virtual inheritance, pointers to
// members, dynamic_cast, std::function and std::variant.
// build: -O2 -std=c++17
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual uint64_t value(uint64_t x) const = 0;
    uint64_t plain(uint64_t x) const { return x + 1; }
};
template <int N> struct Kind : Shape {
    uint64_t value(uint64_t x) const override { return x * (2 * N + 1) ^ N; }
};
struct Other {
    virtual ~Other() = default;
    virtual int other() const { return 1; }
    int data = 9;
};
struct Both : Kind<99>, virtual Other {
    int other() const override { return data; }
};

template <int... N> static void fill(std::vector<std::unique_ptr<Shape>> &shapes, std::integer_sequence<int, N...>) {
    (shapes.push_back(std::make_unique<Kind<N>>()), ...);
}

int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    fill(shapes, std::make_integer_sequence<int, 60>());
    shapes.push_back(std::make_unique<Both>());
    uint64_t x = 1;
    for (int i = 0; i < 300000; i++) x = shapes[(x >> 7) % shapes.size()]->value(x) + 1;
    std::printf("virtual %016lx\n", x);
    uint64_t (Shape::*member)(uint64_t) const = &Shape::value;
    uint64_t (Shape::*direct)(uint64_t) const = &Shape::plain;
    for (int i = 0; i < 1000; i++) x = (shapes[i % 61].get()->*(i % 3 ? member : direct))(x);
    std::printf("members %016lx\n", x);
    int others = 0;
    for (auto &shape : shapes)
        if (auto *other = dynamic_cast<Other *>(shape.get())) others += other->other();
    std::printf("cross cast %d\n", others);
    std::vector<std::function<uint64_t(uint64_t)>> functions;
    for (uint64_t i = 0; i < 20; i++) functions.push_back([i](uint64_t y) { return y * 3 + i; });
    for (int i = 0; i < 10000; i++) x = functions[i % 20](x);
    std::printf("functions %016lx\n", x);
    std::variant<int, double, std::string> variants[] = {1, 2.5, std::string("three")};
    for (auto &variant : variants)
        std::visit([](auto &&held) { std::printf("%zu ", sizeof held); }, variant);
    std::puts("");
}
