//! A moment that was made up.

use std::collections::HashMap;

use retro_query::language::{Clock, Moment, SourceLine, TimePoint, Value};

/// The clock of all these moments.
pub const CLOCK: Clock = Clock { now: 600, last: None, end: 1000 };

/// A moment with answers, that notes what it is asked.
pub struct Scene {
    pub time: u64,
    pub thread: u32,
    /// The innermost function last.
    pub stack: Vec<&'static str>,
    pub asked: Vec<String>,
    expressions: HashMap<&'static str, Option<Value>>,
}

impl Scene {
    pub fn new() -> Scene {
        let integer = |value| Some(Value::Integer(value));
        Scene {
            expressions: HashMap::from([
                ("yes", integer(1)),
                ("no", integer(0)),
                ("seven", integer(7)),
                ("half", Some(Value::Float(0.5))),
                ("text", Some(Value::Text("abc".into()))),
                ("away", None),
                ("(42) - (-7) > 48", integer(1)),
                ("f(\"a\\\"b\", (5))", integer(1)),
            ]),
            time: 500,
            thread: 3,
            stack: vec!["main", "run", "ns::parse_line"],
            asked: Vec::new(),
        }
    }

    fn ask(&mut self, question: impl Into<String>) {
        self.asked.push(question.into());
    }
}

impl Moment for Scene {
    type Error = String;

    fn time(&mut self) -> Result<u64, String> {
        self.ask("time");
        Ok(self.time)
    }

    fn time_of(&mut self, point: TimePoint) -> Result<u64, String> {
        point.on(&CLOCK).ok_or_else(|| "there is no last result".to_string())
    }

    fn thread(&mut self) -> Result<u32, String> {
        self.ask("thread");
        Ok(self.thread)
    }

    fn pc(&mut self) -> Result<u64, String> {
        self.ask("pc");
        Ok(0x401136)
    }

    fn function(&mut self) -> Result<Option<String>, String> {
        self.ask("function");
        Ok(self.stack.last().map(|name| name.to_string()))
    }

    fn source(&mut self) -> Result<Option<SourceLine>, String> {
        self.ask("source");
        Ok(Some(SourceLine { path: "/src/parse.c".into(), line: 7 }))
    }

    fn depth(&mut self) -> Result<u64, String> {
        self.ask("depth");
        Ok(self.stack.len() as u64)
    }

    fn frame(&mut self, level: usize) -> Result<Option<String>, String> {
        self.ask(format!("frame {level}"));
        Ok(self.stack.iter().rev().nth(level).map(|name| name.to_string()))
    }

    fn old_value(&mut self) -> Result<Option<Value>, String> {
        Ok(Some(Value::Integer(-7)))
    }

    fn new_value(&mut self) -> Result<Option<Value>, String> {
        Ok(Some(Value::Integer(42)))
    }

    fn result(&mut self) -> Result<Option<Value>, String> {
        Ok(None)
    }

    fn argument(&mut self, number: u8) -> Result<Option<Value>, String> {
        Ok(match number {
            0 => Some(Value::Text("a\"b".into())),
            1 => Some(Value::Integer(5)),
            _ => None,
        })
    }

    fn expression(&mut self, text: &str) -> Result<Option<Value>, String> {
        self.ask(text);
        self.expressions.get(text).cloned().ok_or_else(|| format!("there is no {text}"))
    }
}
