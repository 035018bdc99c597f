// Shapes behind a base class: virtual calls, a vector, a string, an exception that nobody catches.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    std::string name;
    explicit Shape(std::string given) : name(std::move(given)) {}
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

struct Square : Shape {
    double side;
    explicit Square(double given) : Shape("square"), side(given) {}
    double area() const override
    {
        return side * side;
    }
};

struct Circle : Shape {
    double radius;
    explicit Circle(double given) : Shape("circle"), radius(given) {}
    double area() const override
    {
        return 3.0 * radius * radius;
    }
};

static double total(const std::vector<std::unique_ptr<Shape>> &shapes)
{
    double sum = 0;
    for (const auto &shape : shapes)
        sum += shape->area();
    return sum;
}

int main()
{
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 1; i <= 4; i++) {
        if (i % 2)
            shapes.push_back(std::make_unique<Square>(i));
        else
            shapes.push_back(std::make_unique<Circle>(i));
    }
    double sum = total(shapes);
    std::printf("total %.1f\n", sum);
    std::fflush(stdout);
    if (sum > 50)
        throw std::runtime_error("too large");
    return 0;
}
