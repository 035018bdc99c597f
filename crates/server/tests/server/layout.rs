//! JSON for people: on one line where it fits, and no more lines than needed.

use serde_json::Value;

const WIDTH: usize = 110;

/// A value as text, with `indent` spaces before every line but the first.
pub fn pretty(value: &Value, indent: usize) -> String {
    let short = spaced(value);
    if indent + short.chars().count() <= WIDTH {
        return short;
    }
    let inner = indent + 2;
    let pad = " ".repeat(inner);
    let (open, close, parts): (_, _, Vec<String>) = match value {
        Value::Array(items) => {
            ('[', ']', items.iter().map(|item| format!("{pad}{}", pretty(item, inner))).collect())
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{pad}{name:?}: {}", pretty(value, inner))
            };
            ('{', '}', members.iter().map(member).collect())
        }
        _ => return short,
    };
    format!("{open}\n{}\n{}{close}", parts.join(",\n"), " ".repeat(indent))
}

fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{name:?}: {}", spaced(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn what_does_not_fit_is_broken() {
    let long = "x".repeat(60);
    let value = serde_json::json!({ "a": [long, long], "b": 1 });
    assert_eq!(
        pretty(&value, 0),
        format!("{{\n  \"a\": [\n    \"{long}\",\n    \"{long}\"\n  ],\n  \"b\": 1\n}}")
    );
    assert_eq!(serde_json::from_str::<Value>(&pretty(&value, 0)).unwrap(), value);
}
