// C++ threads: thread_local objects with constructors and destructors, futures, call_once, and
// exceptions that cross from a thread to its waiter.
// build: -pthread -std=c++17
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> constructed, destroyed;

struct Tracked {
    std::string name;
    Tracked() : name("fresh") { constructed++; }
    ~Tracked() { destroyed++; }
};
static thread_local Tracked tracked;
static std::once_flag once;
static int once_count;

static int work(int number) {
    std::call_once(once, [] { once_count++; });
    if (tracked.name != "fresh") std::abort();
    tracked.name = std::to_string(number);
    if (number % 3 == 0) throw std::runtime_error("thread " + tracked.name);
    return number * 2;
}

int main() {
    std::vector<std::future<int>> results;
    for (int i = 0; i < 12; i++) results.push_back(std::async(std::launch::async, work, i));
    for (auto &result : results) {
        try {
            std::printf("%d\n", result.get());
        } catch (const std::exception &error) {
            std::printf("caught %s\n", error.what());
        }
    }
    std::thread joined([] {
        try {
            throw 42;
        } catch (int value) {
            std::printf("inside: %d\n", value);
        }
    });
    joined.join();
    std::printf("constructed %d, destroyed %d, once %d\n", constructed.load(), destroyed.load(), once_count);
    return constructed == 12 && destroyed == 12 && once_count == 1 ? 0 : 1;
}
