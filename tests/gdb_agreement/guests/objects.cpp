// Classes, templates, containers, exceptions and what -O2 makes of them.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ledger {

struct Point {
    double x, y;
    double length_squared() const { return x * x + y * y; }
};

class Item {
  public:
    Item(std::string name, int count) : name_(std::move(name)), count_(count) {}
    virtual ~Item() = default;
    virtual long value() const { return count_ * 3L; }
    const std::string &name() const { return name_; }

  protected:
    std::string name_;
    int count_;
    unsigned flag_ : 3 = 5;
};

class Priced : public Item {
  public:
    Priced(std::string name, int count, long price) : Item(std::move(name), count), price_(price) {}
    long value() const override {
        if (price_ % 13 == 7)
            throw std::runtime_error("no price for " + name_);
        return price_ * count_;
    }

  private:
    long price_;
};

template <typename T> __attribute__((noinline)) T sum(const std::vector<T> &values) {
    T result{};
    for (const T &value : values)
        result += value;
    return result;
}

__attribute__((noinline)) long total(const std::vector<std::unique_ptr<Item>> &items, int &failures) {
    std::vector<long> values;
    for (const auto &item : items) {
        try {
            values.push_back(item->value());
        } catch (const std::runtime_error &error) {
            failures += static_cast<int>(std::string(error.what()).size());
        }
    }
    return sum(values);
}

__attribute__((noinline)) double farthest(std::vector<Point> points) {
    std::sort(points.begin(), points.end(),
              [](const Point &a, const Point &b) { return a.length_squared() < b.length_squared(); });
    return points.back().length_squared();
}

} // namespace ledger

int main() {
    using namespace ledger;
    std::vector<std::unique_ptr<Item>> items;
    std::map<std::string, int> counts;
    std::vector<Point> points;
    for (int i = 0; i < 150; i++) {
        std::string name = "item " + std::to_string(i * 7919 % 41);
        counts[name] += i;
        if (i % 3)
            items.push_back(std::make_unique<Priced>(name, i, i * 17L));
        else
            items.push_back(std::make_unique<Item>(name, i));
        points.push_back({i * 0.5, 100.0 - i});
    }
    int failures = 0;
    long value = total(items, failures);
    std::string longest;
    for (const auto &[name, count] : counts)
        if (name.size() + count % 5 > longest.size())
            longest = name;
    std::printf("%ld %d %.1f %s\n", value, failures, farthest(points), longest.c_str());
    return 0;
}
