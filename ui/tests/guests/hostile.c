/* Everything that a program can call itself and its values, as markup. Compiled under a name that is markup, too. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static char message[] = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";

__attribute__((noinline)) static int look(const char *text, const char *other)
{
    puts(text);
    return (int)strlen(other);
}

int main(void)
{
    prctl(PR_SET_NAME, "<img src=x>", 0, 0, 0);
    int length = look(message, "\"><svg onload=window.hacked=1>");
    printf("<b>%d</b> &lt;\n", length);
    fflush(stdout);
    *(volatile int *)0 = length;
    return 0;
}
