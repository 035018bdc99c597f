# Generators of parsers, then what they generate.
# needs: bison flex gcc
# seconds: 120
set -eu
cat > calc.y <<'Y'
%{
#include <stdio.h>
int yylex(void);
static int yyerror(const char *m) { puts(m); return 0; }
%}
%define api.value.type {long}
%token NUMBER
%left '+' '-'
%left '*' '/'
%%
input: | input line;
line: '\n' | sum '\n' { printf("%ld\n", $1); } | error '\n' { yyerrok; };
sum: NUMBER | sum '+' sum { $$ = $1 + $3; } | sum '-' sum { $$ = $1 - $3; }
   | sum '*' sum { $$ = $1 * $3; } | '(' sum ')' { $$ = $2; };
%%
int main(void) { return yyparse(); }
Y
cat > calc.l <<'L'
%option noyywrap nounput noinput
%{
#include <stdlib.h>
#include "calc.tab.h"
%}
%%
[0-9]+ { yylval = atol(yytext); return NUMBER; }
[ \t]  ;
.|\n   return *yytext;
%%
L
bison -d calc.y && flex calc.l && sha256sum calc.tab.c lex.yy.c
gcc -O2 calc.tab.c lex.yy.c -o calc
printf '1 + 2 * 3\n(4 - 1) * (10 + 1)\n2 +\n7\n' | ./calc
