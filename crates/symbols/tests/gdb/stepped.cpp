#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>

volatile int sink;

namespace shapes {
struct shape {
    virtual ~shape() { sink += 1; }
    virtual int area() const = 0;
};

struct circle : shape {
    int radius;
    explicit circle(int radius) : radius(radius) {}
    __attribute__((noinline)) int area() const override { return 3 * radius * radius + sink; }
};

template <typename T> inline __attribute__((always_inline)) T twice(T value) {
    sink += value;
    return value + value;
}

struct careful {
    ~careful() { sink = sink * 2; }
};
}

__attribute__((noinline)) int throws(int x) {
    shapes::careful careful;
    if (x > 2)
        throw std::runtime_error("too large");
    return shapes::twice(x);
}

__attribute__((noinline)) int catches(int x) {
    try {
        return throws(x);
    } catch (const std::exception &error) {
        return shapes::twice(x) + error.what()[0];
    }
}

void handler(int number) {
    sink += shapes::twice(number);
}

int main(int argc, char **argv) {
    std::unique_ptr<shapes::shape> shape = std::make_unique<shapes::circle>(argc);
    sink += shape->area();
    std::signal(SIGUSR1, handler);
    kill(getpid(), SIGUSR1);
    sink += catches(argc);
    sink += catches(argc + 5);
    return sink & 1;
}
