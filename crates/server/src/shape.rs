//! A look at a request before it is parsed.
//!
//! Parsed JSON may take a few hundred times the memory of its text (`[{"":0},{"":0},…]`) and deep nesting takes stack.
//! One pass over the bytes bounds both. It need not understand JSON: every value but the first begins after an opening
//! bracket or a comma, so that counting these never counts too few. What is no JSON at all is left to the parser.

/// Why a request is not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ShapeError {
    #[error("the request is nested more than {0} deep")]
    TooDeep(usize),
    #[error("the request has more than {0} values: send several")]
    TooManyValues(usize),
}

/// Whether the text stays within both limits.
pub(crate) fn check(
    text: &[u8],
    depth_limit: usize,
    values_limit: usize,
) -> Result<(), ShapeError> {
    let mut bytes = text.iter();
    let mut depth = 0_usize;
    let mut values = 1_usize;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' => {
                depth += 1;
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
        if depth > depth_limit {
            return Err(ShapeError::TooDeep(depth_limit));
        }
        if values > values_limit {
            return Err(ShapeError::TooManyValues(values_limit));
        }
    }
    Ok(())
}

/// To behind the closing quote.
fn skip_string<'a>(bytes: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn depth_of(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn values_of(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(values_of).sum::<usize>(),
            Value::Object(members) => 1 + members.values().map(values_of).sum::<usize>(),
            _ => 1,
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[\\[\\]{},\"\\\\a]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[\\[\"\\\\,{]{0,3}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn depth_is_exact_and_values_are_never_too_few(value in any_json()) {
            let text = value.to_string();
            let depth = depth_of(&value);
            prop_assert_eq!(check(text.as_bytes(), depth, usize::MAX), Ok(()));
            if depth > 0 {
                prop_assert_eq!(
                    check(text.as_bytes(), depth - 1, usize::MAX),
                    Err(ShapeError::TooDeep(depth - 1))
                );
            }
            let values = values_of(&value);
            prop_assert_eq!(
                check(text.as_bytes(), usize::MAX, values - 1),
                Err(ShapeError::TooManyValues(values - 1))
            );
            // An empty array or object counts for one more than it holds, nothing else does.
            prop_assert_eq!(check(text.as_bytes(), usize::MAX, 2 * values), Ok(()));
        }
    }
}
