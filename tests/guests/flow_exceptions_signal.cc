// Exceptions thrown from signal handlers: the unwinder walks through the signal frame to the
// faulting instruction and finds its handler there.
// build: -fnon-call-exceptions -fasynchronous-unwind-tables
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

static long alive;
struct Guard {
    Guard() { alive++; }
    ~Guard() { alive--; }
};

static void on_fault(int number, siginfo_t *info, void *) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    // Leaving by an exception does not restore the mask.
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    if (number == SIGFPE) throw std::domain_error("division");
    throw reinterpret_cast<long>(info->si_addr);
}

__attribute__((noinline)) static int read_from(volatile int *pointer, int depth) {
    Guard guard;
    if (depth > 0) return read_from(pointer, depth - 1) + 1;
    return *pointer;
}

__attribute__((noinline)) static int divide(volatile int *a, volatile int *b) {
    Guard guard;
    return *a / *b;
}

int main() {
    struct sigaction action;
    std::memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGFPE, &action, nullptr);
    int faults = 0, divisions = 0, good = 5, zero = 0;
    for (int i = 0; i < 200; i++) {
        try {
            read_from(i % 5 == 4 ? &good : reinterpret_cast<int *>(16l * (i % 5)), i % 20);
        } catch (long address) {
            if (address != 16 * (i % 5)) return 1;
            faults++;
        }
        try {
            divide(&good, i % 2 ? &zero : &good);
        } catch (const std::domain_error &) {
            divisions++;
        }
    }
    std::printf("faults %d, divisions %d, alive %ld\n", faults, divisions, alive);
    return faults == 160 && divisions == 100 && alive == 0 ? 0 : 1;
}
