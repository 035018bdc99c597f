// Dense matrix product in doubles, vectorised by the compiler: long straight blocks of
// vector instructions in hot loops.
#include <stdio.h>

enum { N = 640, ROUNDS = 10 };

static double a[N][N], b[N][N], c[N][N];

__attribute__((noinline)) static void multiply(void)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            c[i][j] = 0;
        for (int k = 0; k < N; k++) {
            double factor = a[i][k];
            for (int j = 0; j < N; j++)
                c[i][j] += factor * b[k][j];
        }
    }
}

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = (i * 7 + j * 3) % 17 / 16.0;
            b[i][j] = (i * 5 + j * 11) % 13 / 8.0;
        }
    for (int round = 0; round < ROUNDS; round++) {
        multiply();
        double trace = 0;
        for (int i = 0; i < N; i++) {
            trace += c[i][i];
            for (int j = 0; j < N; j++)
                a[i][j] = c[j][i] / (1000.0 * (round + 1));
        }
        printf("trace %.17g\n", trace);
    }
    return 0;
}
