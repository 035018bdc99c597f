//! Structs, enums, traits, slices and a panic that is caught.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(i64),
    Word { text: String, length: usize },
    End,
}

trait Weight {
    fn weight(&self) -> i64;
}

impl Weight for Token {
    fn weight(&self) -> i64 {
        match self {
            Token::Number(value) => *value,
            Token::Word { length, .. } => *length as i64,
            Token::End => 0,
        }
    }
}

static mut WEIGHED: i64 = 0;

#[inline(never)]
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for word in text.split(' ') {
        let token = match word.parse() {
            Ok(value) => Token::Number(value),
            Err(_) => Token::Word { text: word.to_string(), length: word.len() },
        };
        found.push(token);
    }
    found.push(Token::End);
    found
}

#[inline(never)]
fn weigh(tokens: &[Token]) -> i64 {
    let mut sum = 0;
    for token in tokens {
        sum += token.weight();
        unsafe { WEIGHED += 1 };
    }
    sum
}

fn main() {
    let all = tokens("12 apples and 30 pears");
    let sum = weigh(&all);
    let mut counts = BTreeMap::new();
    counts.insert("sum", sum);
    std::process::exit(if sum == 56 { 0 } else { 1 });
}
