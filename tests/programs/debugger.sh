# gdb and the program that it debugs, both under the engine: breakpoints, steps, stacks, watchpoints, calls, signals, threads,
# children, attaching.
# needs: gcc gdb
# seconds: 240
set -eu
export DEBUGINFOD_URLS=
mask() {
  sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/\b(process|LWP|pid) [0-9]+ */\1 N /g; s/[0-9]+(\[sigdebug\])/N\1/' |
    grep -v -E '^\[(New|Switching|Thread)|^Using host|libthread_db|^$|No such file|^Download'
}
debug() { gdb -nx -batch -ex 'set pagination off' -ex 'set confirm off' "$@" 2>&1 | mask; }

echo "== stops and stacks"
debug -ex 'break factorial if n == 1' -ex run -ex bt -ex finish -ex up -ex 'info locals' -ex 'info breakpoints' \
  -ex 'delete' -ex 'tbreak on_signal' -ex continue -ex bt -ex 'print number' -ex finish -ex kill ./debugged

echo "== steps"
debug -ex 'break main' -ex run -ex next -ex step -ex 'info frame' -ex step -ex 'print n' -ex finish -ex 'stepi' -ex 'x/2i $pc' \
  -ex 'nexti 3' -ex 'until 39' -ex 'advance 40' -ex 'info registers rip' -ex kill ./debugged

echo "== data"
debug -ex 'break add' -ex run -ex 'print *account' -ex 'print accounts' -ex 'set var accounts[1].cents = 1000' \
  -ex 'print factorial(6)' -ex 'print/x accounts[2].owner' -ex 'x/2dw &accounts' -ex 'print $_siginfo.si_signo' \
  -ex 'delete' -ex continue ./debugged | grep -v 'hit Breakpoint\|^[0-9]'

echo "== watchpoints"
debug -ex 'break main' -ex run -ex 'watch accounts[0].cents' -ex continue -ex continue -ex 'delete' -ex 'rwatch accounts[2].cents' \
  -ex 'continue' -ex 'delete' -ex continue ./debugged | grep -v '^[0-9]'

echo "== hardware breakpoint, jump, return"
debug -ex 'break main' -ex run -ex 'hbreak factorial' -ex continue -ex 'return 5' -ex 'next' -ex 'print total' -ex 'delete' \
  -ex continue ./debugged

echo "== signals"
debug -ex 'handle SIGUSR1 stop print' -ex run -ex 'print $_siginfo.si_signo' -ex 'signal 0' ./debugged
debug -ex 'handle SIGUSR1 nostop noprint pass' -ex run ./debugged

echo "== threads"
debug -ex 'break work' -ex run -ex 'delete' -ex 'break add' -ex continue -ex 'print $_thread > 1' -ex 'info threads' -ex delete \
  -ex continue ./debugged | grep -E 'exited|print|has|^\$'

echo "== children"
debug -ex 'catch fork' -ex 'catch exec' -ex run -ex 'set follow-fork-mode child' -ex continue -ex 'info program' -ex continue \
  --args ./debugged x | grep -v 'Reading\|debugging symbols'
debug -ex 'set detach-on-fork off' -ex 'catch vfork' -ex run -ex 'info inferiors' --args ./debugged x | tail -4
debug -ex 'catch syscall exit_group' -ex run -ex continue -ex delete -ex continue ./debugged

echo "== attach"
cat >loop.c <<'C'
#include <unistd.h>
volatile int stop, rounds;
static void turn(void) { rounds++; }
int main(void) { while (!stop) { turn(); usleep(1000); } return 9; }
C
gcc -g -O0 loop.c -o loop
./loop & pid=$!
until [ "$(tr '\0' ' ' </proc/$pid/cmdline)" = "./loop " ]; do sleep 0.01; done
sleep 0.2
debug -p $pid -ex 'break turn' -ex continue -ex finish -ex 'print rounds > 0' -ex 'set var stop = 1' -ex delete -ex detach |
  grep -v -E 'nanosleep|^0x|^#|ADDRESS in __|^[0-9]+'
wait $pid || echo "status $?"
