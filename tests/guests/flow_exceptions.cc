// C++ exceptions: deep unwinding with destructors, rethrow, nested, from constructors and
// callbacks, through C frames, and uncaught in a noexcept child.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static long alive, destroyed;
struct Guard {
    int number;
    explicit Guard(int number) : number(number) { alive++; }
    ~Guard() { alive--, destroyed++; }
};

__attribute__((noinline)) static int dive(int depth) {
    Guard guard(depth);
    if (depth == 0) throw std::runtime_error("bottom");
    return dive(depth - 1) + guard.number;
}

struct Throwing {
    Guard first{1}, second{2};
    Throwing() { throw 5; }
};

static int compare(const void *a, const void *b) {
    if (*static_cast<const int *>(a) == 4) throw std::string("four");
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

__attribute__((noinline)) static void throw_one() { throw 1; }

int main() {
    long caught = 0;
    for (int i = 0; i < 200; i++) {
        try {
            dive(i);
        } catch (const std::exception &error) {
            if (std::string(error.what()) == "bottom") caught++;
        }
    }
    std::printf("caught %ld, destroyed %ld, alive %ld\n", caught, destroyed, alive);
    try {
        dive(2000);
    } catch (...) {
        std::printf("2000 frames, alive %ld\n", alive);
    }
    try {
        Throwing object;
    } catch (int value) {
        std::printf("constructor threw %d, alive %ld\n", value, alive);
    }
    try {
        try {
            throw std::logic_error("inner");
        } catch (...) {
            std::throw_with_nested(std::runtime_error("outer"));
        }
    } catch (const std::exception &error) {
        std::printf("%s around ", error.what());
        try {
            std::rethrow_if_nested(error);
        } catch (const std::exception &inner) {
            std::printf("%s\n", inner.what());
        }
    }
    int numbers[] = {7, 2, 4, 9};
    try {
        std::qsort(numbers, 4, sizeof(int), compare);
    } catch (const std::string &text) {
        std::printf("through C: %s\n", text.c_str());
    }
    std::exception_ptr kept;
    try {
        std::function<void(int)> recurse = [&](int depth) {
            Guard guard(depth);
            if (depth > 30) throw depth;
            recurse(depth + 1);
        };
        recurse(0);
    } catch (...) {
        kept = std::current_exception();
    }
    try {
        std::rethrow_exception(kept);
    } catch (int depth) {
        std::printf("rethrown %d, alive %ld\n", depth, alive);
    }
    try {
        std::vector<int>().at(3);
    } catch (const std::out_of_range &) {
        std::puts("from the library");
    }
    pid_t child = fork();
    if (child == 0) {
        std::fclose(stderr);
        std::set_terminate([] { _exit(88); });
        []() noexcept { throw_one(); }();
    }
    int status;
    waitpid(child, &status, 0);
    std::printf("terminate: %d\n", WEXITSTATUS(status));
    return alive == 0 ? 0 : 1;
}
