// Classes, virtual functions, templates, containers and exceptions.

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

class Shape {
public:
    explicit Shape(std::string name) : name(std::move(name)) {}
    virtual ~Shape() = default;
    virtual int area() const = 0;
    std::string name;
};

class Square : public Shape {
public:
    explicit Square(int side) : Shape("square"), side(side) {}
    int area() const override { return side * side; }
    int side;
};

class Rectangle : public Shape {
public:
    Rectangle(int width, int height) : Shape("rectangle"), width(width), height(height) {}
    int area() const override
    {
        if (width < 0)
            throw std::out_of_range("negative width");
        return width * height;
    }
    int width, height;
};

namespace geometry {
template <typename T>
T larger(T left, T right)
{
    return left < right ? right : left;
}

int caught;

int total(const std::vector<std::unique_ptr<Shape>> &shapes)
{
    int sum = 0;
    for (const auto &shape : shapes) {
        try {
            sum += shape->area();
        } catch (const std::out_of_range &error) {
            caught++;
        }
    }
    return sum;
}
}

int main()
{
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.push_back(std::make_unique<Square>(3));
    shapes.push_back(std::make_unique<Rectangle>(2, 5));
    shapes.push_back(std::make_unique<Rectangle>(-1, 5));
    std::vector<int> areas = {9, 10, 0};
    int sum = geometry::total(shapes);
    int most = geometry::larger(sum, areas[1]);
    return most == 19 && geometry::caught == 1 ? 0 : 1;
}
