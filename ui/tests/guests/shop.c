/* Prints labels for parcels. The names come from a database, which hands each label to a function of this program. One
   name is longer than a label may be, and SQLite crashes for it, later and elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite3.h"

struct printer {
    int count;
    char label[20];
    sqlite3 *orders;
};

/* print_label(text): the next label. */
static void print_label(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct printer *printer = sqlite3_user_data(context);
    const char *text = (const char *)sqlite3_value_text(values[0]);
    strcpy(printer->label, text);
    printer->count++;
    sqlite3_result_int(context, printer->count);
    (void)count;
}

static void run(sqlite3 *database, const char *statements)
{
    char *error = NULL;
    if (sqlite3_exec(database, statements, NULL, NULL, &error) != SQLITE_OK) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static int orders_left(struct printer *printer)
{
    sqlite3_stmt *statement = NULL;
    int left = -1;
    if (sqlite3_prepare_v2(printer->orders, "SELECT count(*) FROM parcel WHERE number IS NULL", -1, &statement, NULL) == SQLITE_OK
        && sqlite3_step(statement) == SQLITE_ROW)
        left = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return left;
}

int main(void)
{
    struct printer *printer = calloc(1, sizeof *printer);
    if (!printer || sqlite3_open(":memory:", &printer->orders) != SQLITE_OK)
        return 1;
    sqlite3 *database = printer->orders;
    sqlite3_create_function(database, "print_label", 1, SQLITE_UTF8, printer, print_label, NULL, NULL);
    run(database,
        "CREATE TABLE parcel(id INTEGER PRIMARY KEY, first TEXT, last TEXT, number INTEGER);"
        "INSERT INTO parcel(first, last) VALUES ('Ada', 'Lovelace'), ('Alan', 'Turing'), ('Sofya', 'Vasilyevna Kovalevskaya'), ('Kurt', 'Goedel');");
    run(database, "UPDATE parcel SET number = print_label(first || ' ' || last)");
    printf("%d labels printed\n", printer->count);
    fflush(stdout);
    printf("%d orders left\n", orders_left(printer));
    sqlite3_close(database);
    free(printer);
    return 0;
}
