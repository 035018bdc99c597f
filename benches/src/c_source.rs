//! A C file of realistic shape for the compiler to chew on.
//!
//! Repeating one function would train caches and branch predictors in a way no real source does, so
//! each function is one of several shapes (loops over arrays, list walking, switches, string
//! handling, floating point, table lookup with calls to earlier functions) with its own constants,
//! types and conditions.

use std::fmt::Write as _;

use crate::random::Random;

const PRELUDE: &str = "\
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    struct item *next;
    char name[24];
    int32_t kind;
    uint32_t flags;
    int64_t value;
    double weight;
};

struct store {
    struct item *first;
    size_t count;
    int64_t totals[16];
    const char *title;
};

typedef int64_t (*handler)(struct store *, int64_t);
";

/// A translation unit of `functions` functions, each about 25 lines, and a table of them.
pub fn generate(functions: usize) -> String {
    let mut random = Random::new(0xcc1);
    let mut source = PRELUDE.to_owned();
    for number in 0..functions {
        source.push('\n');
        let body = match random.below(6) {
            0 => array_loop(&mut random),
            1 => list_walk(&mut random),
            2 => switch(&mut random),
            3 => string_scan(&mut random),
            4 => floating(&mut random),
            _ => calls(number, &mut random),
        };
        let linkage = if random.below(3) == 0 { "static " } else { "" };
        let _ = writeln!(
            source,
            "{linkage}int64_t function_{number}(struct store *store, int64_t argument)\n{{"
        );
        source.push_str(&body);
        source.push_str("}\n");
    }
    source.push_str("\nconst handler handlers[] = {\n");
    for number in 0..functions {
        let _ = writeln!(source, "    function_{number},");
    }
    source.push_str("};\n");
    source
}

fn condition(random: &mut Random) -> String {
    let constant = random.below(4096);
    match random.below(6) {
        0 => format!("argument > {constant}"),
        1 => format!("(argument & {constant}) == {}", random.below(16)),
        2 => format!("store->count < {constant}"),
        3 => format!("store->totals[{}] != argument", random.below(16)),
        4 => format!("argument % {} == {} && store->first", 3 + random.below(60), random.below(3)),
        _ => format!("result < {constant} || argument < -{constant}"),
    }
}

fn expression(random: &mut Random) -> String {
    let constant = 1 + random.below(1000);
    match random.below(7) {
        0 => format!("argument * {constant} + result"),
        1 => {
            format!("(result << {}) ^ (argument >> {})", 1 + random.below(12), 1 + random.below(12))
        }
        2 => format!("store->totals[(argument + {constant}) & 15] - result"),
        3 => format!("(int64_t)((uint32_t)result * {constant}u) + argument"),
        4 => format!("result / {constant} + argument % {}", constant + 1),
        5 => format!("result > argument ? result - {constant} : argument + {constant}"),
        _ => format!("(result & ~{constant}) | (argument & {constant})"),
    }
}

fn array_loop(random: &mut Random) -> String {
    let size = 8 << random.below(4);
    let kind = random.pick(&["int32_t", "int64_t", "uint16_t", "uint8_t"]);
    let mut body = format!(
        "    {kind} cells[{size}];\n    int64_t result = {};\n    int i, j;\n\n    for (i = 0; i < {size}; i++)\n        \
         cells[i] = ({kind})(argument * i + {});\n",
        random.below(100),
        random.below(1000)
    );
    for _ in 0..1 + random.below(3) {
        let (step, offset) = (1 + random.below(3), 1 + random.below(size / 2));
        let _ = write!(
            body,
            "    for (i = 0; i < {size}; i += {step}) {{\n        for (j = i; j + {offset} < {size}; j++) {{\n            \
             if (cells[j] > cells[j + {offset}])\n                result += cells[j] - cells[j + {offset}];\n            \
             else\n                cells[j] ^= ({kind})({});\n        }}\n        if ({})\n            break;\n    }}\n",
            expression(random),
            condition(random)
        );
    }
    let _ =
        writeln!(body, "    store->totals[{}] += cells[{}];", random.below(16), random.below(size));
    body.push_str("    return result;\n");
    body
}

fn list_walk(random: &mut Random) -> String {
    let mut body = "    struct item *item, *best = NULL;\n    int64_t result = 0;\n\n".to_owned();
    let _ = write!(
        body,
        "    for (item = store->first; item; item = item->next) {{\n        if (item->kind == {} || (item->flags & {}u))\n            \
         continue;\n        if (!best || item->value > best->value + {})\n            best = item;\n        \
         result += item->value * {};\n        item->flags |= {}u;\n    }}\n",
        random.below(20),
        1 << random.below(16),
        random.below(100),
        1 + random.below(9),
        1 << random.below(16)
    );
    let _ = write!(
        body,
        "    if (best && {}) {{\n        best->value = {};\n        best->weight *= {}.5;\n        store->count++;\n    }} else if ({}) {{\n        \
         struct item *fresh = malloc(sizeof *fresh);\n        if (!fresh)\n            return -1;\n        \
         memset(fresh, 0, sizeof *fresh);\n        snprintf(fresh->name, sizeof fresh->name, \"item-%d\", (int)argument);\n        \
         fresh->next = store->first;\n        store->first = fresh;\n        result = {};\n    }}\n    return result;\n",
        condition(random),
        expression(random),
        random.below(9),
        condition(random),
        expression(random)
    );
    body
}

fn switch(random: &mut Random) -> String {
    let mut body = format!(
        "    int64_t result = {};\n\n    while (argument > 0) {{\n        switch (argument & 31) {{\n",
        random.below(1000)
    );
    let mut label = random.below(3);
    while label < 32 {
        let _ = writeln!(body, "        case {label}:");
        if random.below(4) != 0 {
            let _ = writeln!(body, "            result = {};", expression(random));
            if random.below(3) == 0 {
                let _ = writeln!(
                    body,
                    "            if ({})\n                return result;",
                    condition(random)
                );
            }
            if random.below(5) != 0 {
                body.push_str("            break;\n");
            }
        }
        label += 1 + random.below(5);
    }
    let _ = write!(
        body,
        "        default:\n            store->totals[argument & 15] += result;\n            break;\n        }}\n        argument >>= {};\n    }}\n    \
         return result;\n",
        2 + random.below(4)
    );
    body
}

fn string_scan(random: &mut Random) -> String {
    let separators: Vec<char> =
        (0..3).map(|_| *random.pick(&[',', ';', ':', '/', '.', '-', ' '])).collect();
    format!(
        "    const char *text = store->title ? store->title : \"none {}\";\n    char word[{}];\n    size_t length = 0;\n    \
         int64_t result = argument;\n\n    for (; *text; text++) {{\n        if (*text == '{}' || *text == '{}' || *text == '{}') {{\n            \
         word[length] = 0;\n            if (strcmp(word, \"key{}\") == 0)\n                result = {};\n            \
         else if (length > {} && word[0] == '{}')\n                result ^= strtol(word + 1, NULL, {});\n            \
         length = 0;\n        }} else if (*text >= '0' && *text <= '9') {{\n            result = result * 10 + (*text - '0');\n        }} \
         else if (length + 1 < sizeof word) {{\n            word[length++] = (char)(*text | 32);\n        }}\n        if ({})\n            \
         break;\n    }}\n    return result + (int64_t)length;\n",
        random.below(1000),
        16 << random.below(3),
        separators[0],
        separators[1],
        separators[2],
        random.below(100),
        expression(random),
        1 + random.below(6),
        random.pick(&['x', 'n', 'k', 'z']),
        random.pick(&[8, 10, 16]),
        condition(random)
    )
}

fn floating(random: &mut Random) -> String {
    let size = 4 + random.below(12);
    format!(
        "    double grid[{size}][{size}];\n    double sum = {}.25, scale = (double)argument / {}.0;\n    int64_t result = 0;\n    \
         int row, column;\n\n    for (row = 0; row < {size}; row++)\n        for (column = 0; column < {size}; column++)\n            \
         grid[row][column] = row * scale - column / (scale + {}.5);\n    for (row = 1; row < {size}; row++) {{\n        \
         for (column = 1; column < {size}; column++) {{\n            double slope = grid[row][column] - grid[row - 1][column - 1];\n            \
         if (slope > sum * {}.0 || slope < -{}.125)\n                sum += slope * slope;\n            else\n                \
         grid[row][column - 1] = sum - slope;\n        }}\n        if ({})\n            result++;\n    }}\n    \
         if (store->first)\n        store->first->weight = grid[{}][{}];\n    return result + (int64_t)(sum * {}.0);\n",
        random.below(10),
        1 + random.below(100),
        random.below(10),
        1 + random.below(5),
        random.below(20),
        condition(random),
        random.below(size),
        random.below(size),
        1 + random.below(64)
    )
}

fn calls(number: usize, random: &mut Random) -> String {
    let mut body = "    int64_t result = argument;\n\n".to_owned();
    if number == 0 {
        body.push_str("    return result;\n");
        return body;
    }
    for _ in 0..3 + random.below(4) {
        let _ = write!(
            body,
            "    if ({}) {{\n        result += function_{}(store, {});\n        store->totals[{}] -= result;\n    }} else {{\n        \
             result = {};\n    }}\n",
            condition(random),
            random.below(number),
            expression(random),
            random.below(16),
            expression(random)
        );
    }
    body.push_str("    return result;\n");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_reproducible_and_grows_with_the_count() {
        assert_eq!(generate(20), generate(20));
        assert!(generate(40).lines().count() > generate(20).lines().count());
    }

    #[test]
    fn braces_balance() {
        let source = generate(60);
        assert_eq!(source.matches('{').count(), source.matches('}').count());
    }
}
