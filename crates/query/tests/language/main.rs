//! The language of `goto`, from the outside.

mod errors;
mod evaluation;
mod hostile;
mod parsing;
mod plans;
mod properties;
mod scene;

use retro_query::language::{Query, Search};

/// A query that is right.
fn query(text: &str) -> Query {
    text.parse().unwrap_or_else(|error| panic!("{text}:\n{error}"))
}

/// A query that looks for something.
fn search(text: &str) -> Search {
    match query(text) {
        Query::Search(search) => search,
        Query::Moment(_) => panic!("{text} is only a moment"),
    }
}
