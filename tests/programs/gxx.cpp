// Exceptions through many frames, destructors, containers, algorithms, streams, threads.
#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

struct Tracker {
    static inline int alive = 0;
    Tracker() { ++alive; }
    Tracker(const Tracker &) { ++alive; }
    ~Tracker() { --alive; }
};

struct Failure : std::runtime_error {
    int depth;
    explicit Failure(int d) : std::runtime_error("depth " + std::to_string(d)), depth(d) {}
};

static int descend(int depth, int limit)
{
    Tracker tracker;
    if (depth == limit)
        throw Failure(depth);
    try {
        return descend(depth + 1, limit) + 1;
    } catch (const std::logic_error &) {
        return -1;
    }
}

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};
struct Square : Shape {
    double side;
    explicit Square(double s) : side(s) {}
    double area() const override { return side * side; }
};
struct Circle : Shape {
    double radius;
    explicit Circle(double r) : radius(r) {}
    double area() const override { return 3.0 * radius * radius; }
};

int main()
{
    int caught = 0;
    for (int i = 0; i < 2000; i++) {
        try {
            descend(0, i % 50);
        } catch (const Failure &failure) {
            caught += failure.depth;
        }
    }
    std::cout << "caught " << caught << " alive " << Tracker::alive << '\n';

    try {
        try {
            std::vector<int>().at(3);
        } catch (...) {
            std::throw_with_nested(std::runtime_error("outer"));
        }
    } catch (const std::exception &error) {
        std::cout << error.what() << '\n';
        try {
            std::rethrow_if_nested(error);
        } catch (const std::out_of_range &) {
            std::cout << "nested out_of_range\n";
        }
    }

    std::map<std::string, std::vector<int>> index;
    std::unordered_map<int, std::string> names;
    for (int i = 0; i < 20000; i++) {
        index["key" + std::to_string(i % 97)].push_back(i);
        names.emplace(i * 31 % 10007, std::to_string(i));
    }
    long total = 0;
    for (const auto &[key, values] : index)
        total += std::accumulate(values.begin(), values.end(), 0L) % 1009 + key.size();
    std::cout << "total " << total << " names " << names.size() << ' ' << names.at(31) << '\n';

    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 1; i <= 1000; i++) {
        if (i % 3)
            shapes.push_back(std::make_unique<Square>(i));
        else
            shapes.push_back(std::make_unique<Circle>(i));
    }
    std::sort(shapes.begin(), shapes.end(),
              [](const auto &a, const auto &b) { return a->area() > b->area(); });
    std::cout << "largest " << shapes.front()->area() << " circles "
              << std::count_if(shapes.begin(), shapes.end(), [](const auto &s) {
                     return dynamic_cast<const Circle *>(s.get()) != nullptr;
                 })
              << '\n';

    std::regex pattern("(\\w+)@(\\w+)\\.org");
    std::string mails = "ann@example.org, bob@test.org; nobody";
    for (std::sregex_iterator it(mails.begin(), mails.end(), pattern), end; it != end; ++it)
        std::cout << (*it)[1] << " at " << (*it)[2] << '\n';

    std::variant<int, std::string> choice = std::string("text");
    std::optional<int> nothing;
    std::cout << std::get<std::string>(choice) << nothing.value_or(5) << '\n';
    try {
        (void)std::get<int>(choice);
    } catch (const std::bad_variant_access &) {
        std::cout << "bad variant\n";
    }

    std::mutex lock;
    long sum = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 500; i++) {
                std::lock_guard guard(lock);
                sum += t * i;
            }
        });
    for (auto &thread : threads)
        thread.join();
    std::vector<std::future<int>> futures;
    for (int i = 0; i < 8; i++)
        futures.push_back(std::async(std::launch::async, [i]() -> int {
            if (i == 5)
                throw Failure(i);
            return i * i;
        }));
    for (auto &future : futures) {
        try {
            sum += future.get();
        } catch (const Failure &failure) {
            std::cout << "thread threw " << failure.what() << '\n';
        }
    }
    std::cout << "sum " << sum << '\n';
    std::ostringstream stream;
    stream << std::hex << 255 << ' ' << std::fixed << 3.14159;
    std::cout << stream.str() << std::endl;
    return Tracker::alive;
}
