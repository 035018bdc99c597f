// Object-oriented C++: virtual calls on a mixed collection, std::function, std::map and
// std::sort with a comparison object.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
    virtual double boundary() const = 0;
    virtual void grow(double factor) = 0;
    virtual const char *name() const = 0;
};

struct Circle final : Shape {
    double radius;
    explicit Circle(double r) : radius(r) {}
    double area() const override { return 3.25 * radius * radius; }
    double boundary() const override { return 6.5 * radius; }
    void grow(double factor) override { radius *= factor; }
    const char *name() const override { return "circle"; }
};

struct Rectangle : Shape {
    double width, height;
    Rectangle(double w, double h) : width(w), height(h) {}
    double area() const override { return width * height; }
    double boundary() const override { return 2 * (width + height); }
    void grow(double factor) override { width *= factor; height *= factor; }
    const char *name() const override { return "rectangle"; }
};

struct Square final : Rectangle {
    explicit Square(double side) : Rectangle(side, side) {}
    const char *name() const override { return "square"; }
};

struct Triangle final : Shape {
    double base, height;
    Triangle(double b, double h) : base(b), height(h) {}
    double area() const override { return base * height / 2; }
    double boundary() const override { return base + 2 * height; }
    void grow(double factor) override { base *= factor; height /= factor; }
    const char *name() const override { return "triangle"; }
};

unsigned state = 2463534242u;
unsigned next_random()
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

std::unique_ptr<Shape> make_shape()
{
    double first = 1 + next_random() % 64 / 16.0;
    double second = 1 + next_random() % 64 / 16.0;
    switch (next_random() % 4) {
    case 0: return std::make_unique<Circle>(first);
    case 1: return std::make_unique<Rectangle>(first, second);
    case 2: return std::make_unique<Square>(first);
    default: return std::make_unique<Triangle>(first, second);
    }
}

} // namespace

int main()
{
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 0; i < 20000; i++)
        shapes.push_back(make_shape());

    std::vector<std::function<double(const Shape &)>> measures = {
        [](const Shape &s) { return s.area(); },
        [](const Shape &s) { return s.boundary(); },
        [](const Shape &s) { return s.area() / s.boundary(); },
    };

    double total = 0;
    for (int round = 0; round < 400; round++) {
        double factor = round % 2 ? 0.5 : 2.0;
        for (auto &shape : shapes) {
            shape->grow(factor);
            total += measures[round % measures.size()](*shape);
        }
    }

    std::map<std::string, double> by_name;
    for (int round = 0; round < 160; round++) {
        std::sort(shapes.begin(), shapes.end(), [round](const auto &left, const auto &right) {
            return round % 2 ? left->area() < right->area() : left->boundary() < right->boundary();
        });
        for (const auto &shape : shapes)
            by_name[shape->name()] += shape->area();
    }

    std::printf("total %.17g\n", total);
    for (const auto &[name, sum] : by_name)
        std::printf("%s %.17g\n", name.c_str(), sum);
    return 0;
}
