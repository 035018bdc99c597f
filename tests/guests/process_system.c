// system and popen: the shell runs, statuses and data come back, signals are left as they were.
#include "check.h"

int main(void) {
    CHECK(system(NULL) != 0);
    int status = system("exit 7");
    CHECK(WIFEXITED(status));
    printf("system: %d\n", WEXITSTATUS(status));
    status = system("kill -TERM $$");
    CHECK(WIFSIGNALED(status));
    printf("killed by %d\n", WTERMSIG(status));
    status = system("echo hello from the shell | tr a-z A-Z");
    CHECK_EQ(status, 0);
    status = system("no-such-command-anywhere 2>/dev/null");
    printf("not found: %d\n", WEXITSTATUS(status));

    FILE *from = popen("echo one; echo two; exit 3", "r");
    char line[100];
    while (fgets(line, sizeof line, from)) printf("read: %s", line);
    printf("pclose: %d\n", WEXITSTATUS(pclose(from)));
    FILE *to = popen("sort | tr '\\n' ' '; echo", "w");
    fputs("pear\napple\nfig\n", to);
    CHECK_EQ(pclose(to), 0);
    struct sigaction action;
    sigaction(SIGINT, NULL, &action);
    CHECK(action.sa_handler == SIG_DFL);
}
