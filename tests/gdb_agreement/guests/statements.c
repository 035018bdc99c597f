/* Executes the statements of a file with SQLite, which is compiled into this program with debug information. */
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

static int print_row(void *rows, int columns, char **values, char **names) {
    int *count = rows;
    (void)names;
    *count += 1;
    for (int i = 0; i < columns; i++)
        printf("%s%s", i ? "|" : "", values[i] ? values[i] : "");
    printf("\n");
    return 0;
}

int main(int argc, char **argv) {
    char text[8192];
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!file)
        return 2;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    sqlite3 *database;
    char *error = NULL;
    int rows = 0;
    if (sqlite3_open(":memory:", &database) || sqlite3_exec(database, text, print_row, &rows, &error)) {
        fprintf(stderr, "%s\n", error ? error : "cannot open");
        return 1;
    }
    printf("%d rows\n", rows);
    return sqlite3_close(database);
}
