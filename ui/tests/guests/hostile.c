/* Everything that a program can call itself and its values, as markup. Compiled under a name that is markup, too. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static char message[] = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";

__attribute__((noinline)) static int look(const char *text, const char *other)
{
    puts(text);
    return (int)strlen(other);
}

static void *second(void *unused)
{
    prctl(PR_SET_NAME, "<b onload=x>", 0, 0, 0);
    /* What a terminal would obey: a title, a link, another colour, letters from right to left. */
    puts("\x1b]0;<b>title</b>\a\x1b]8;;javascript:alert(1)\x1b\\link\x1b[31m\xe2\x80\xaetxet \xff\xfe");
    return unused;
}

int main(void)
{
    pthread_t thread;
    prctl(PR_SET_NAME, "<img src=x>", 0, 0, 0);
    pthread_create(&thread, NULL, second, NULL);
    pthread_join(thread, NULL);
    int length = look(message, "\"><svg onload=window.hacked=1>");
    printf("<b>%d</b> &lt;\n", length);
    fflush(stdout);
    *(volatile int *)0 = length;
    return 0;
}
