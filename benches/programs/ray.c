// A small recursive ray tracer: floating-point arithmetic, square roots, short calls.
// Prints the picture as a PPM, so that a single wrong bit in any pixel shows.
#include <math.h>
#include <stdio.h>

enum { WIDTH = 640, HEIGHT = 480, SPHERES = 24, MAX_DEPTH = 5, SAMPLES = 2 };

typedef struct { double x, y, z; } Vec;
typedef struct { Vec centre; double radius; Vec colour; double mirror; } Sphere;

static Sphere scene[SPHERES];
static unsigned char picture[HEIGHT][WIDTH][3];

static Vec add(Vec a, Vec b) { return (Vec){a.x + b.x, a.y + b.y, a.z + b.z}; }
static Vec sub(Vec a, Vec b) { return (Vec){a.x - b.x, a.y - b.y, a.z - b.z}; }
static Vec scale(Vec a, double k) { return (Vec){a.x * k, a.y * k, a.z * k}; }
static double dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static Vec unit(Vec a) { return scale(a, 1.0 / sqrt(dot(a, a))); }

static unsigned seed = 12345;
static double random_unit(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / 16777216.0;
}

static void build_scene(void)
{
    for (int i = 0; i < SPHERES; i++) {
        scene[i].radius = 0.3 + 0.7 * random_unit();
        scene[i].centre = (Vec){random_unit() * 10 - 5, scene[i].radius - 1, random_unit() * 10 + 3};
        scene[i].colour = (Vec){random_unit(), random_unit(), random_unit()};
        scene[i].mirror = random_unit() * 0.6;
    }
}

__attribute__((noinline)) static double hit_sphere(const Sphere *s, Vec origin, Vec direction)
{
    Vec to_centre = sub(s->centre, origin);
    double along = dot(to_centre, direction);
    double squared = along * along - dot(to_centre, to_centre) + s->radius * s->radius;
    if (squared < 0)
        return -1;
    double root = sqrt(squared);
    double near = along - root;
    if (near > 1e-6)
        return near;
    double far = along + root;
    return far > 1e-6 ? far : -1;
}

static int nearest(Vec origin, Vec direction, double *distance)
{
    int found = -1;
    *distance = 1e30;
    for (int i = 0; i < SPHERES; i++) {
        double d = hit_sphere(&scene[i], origin, direction);
        if (d > 0 && d < *distance) {
            *distance = d;
            found = i;
        }
    }
    return found;
}

static Vec trace(Vec origin, Vec direction, int depth)
{
    double distance;
    int index = nearest(origin, direction, &distance);
    Vec point, normal, colour;
    double mirror;
    if (index >= 0) {
        point = add(origin, scale(direction, distance));
        normal = unit(sub(point, scene[index].centre));
        colour = scene[index].colour;
        mirror = scene[index].mirror;
    } else if (direction.y < -1e-6) {
        point = add(origin, scale(direction, (-1 - origin.y) / direction.y));
        normal = (Vec){0, 1, 0};
        int odd = ((int)floor(point.x) + (int)floor(point.z)) & 1;
        colour = odd ? (Vec){0.9, 0.9, 0.9} : (Vec){0.2, 0.2, 0.2};
        mirror = 0.2;
    } else {
        double height = 0.5 * (direction.y + 1);
        return (Vec){1 - 0.5 * height, 1 - 0.3 * height, 1};
    }

    Vec light = unit(sub((Vec){4, 8, -2}, point));
    double blocked;
    double shade = dot(normal, light);
    if (shade < 0 || nearest(point, light, &blocked) >= 0)
        shade = 0;
    Vec result = scale(colour, 0.15 + 0.85 * shade);
    if (depth < MAX_DEPTH && mirror > 0.01) {
        Vec bounced = sub(direction, scale(normal, 2 * dot(direction, normal)));
        Vec reflected = trace(point, unit(bounced), depth + 1);
        result = add(scale(result, 1 - mirror), scale(reflected, mirror));
    }
    return result;
}

static unsigned char to_byte(double v)
{
    if (v < 0)
        v = 0;
    if (v > 1)
        v = 1;
    return (unsigned char)(sqrt(v) * 255.0);
}

int main(void)
{
    build_scene();
    for (int row = 0; row < HEIGHT; row++) {
        for (int column = 0; column < WIDTH; column++) {
            Vec sum = {0, 0, 0};
            for (int s = 0; s < SAMPLES * SAMPLES; s++) {
                double u = (column + (s % SAMPLES + 0.5) / SAMPLES - WIDTH / 2.0) / HEIGHT;
                double v = (HEIGHT / 2.0 - row - (s / SAMPLES + 0.5) / SAMPLES) / HEIGHT;
                sum = add(sum, trace((Vec){0, 0.5, -4}, unit((Vec){u, v, 1.2}), 0));
            }
            sum = scale(sum, 1.0 / (SAMPLES * SAMPLES));
            picture[row][column][0] = to_byte(sum.x);
            picture[row][column][1] = to_byte(sum.y);
            picture[row][column][2] = to_byte(sum.z);
        }
    }
    printf("P6\n%d %d\n255\n", WIDTH, HEIGHT);
    fwrite(picture, 1, sizeof picture, stdout);
    return 0;
}
