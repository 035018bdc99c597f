//! Call trees against a naive oracle: every question, files that were cut short or damaged, and measurements.

mod batches;
mod files;
mod measurements;
mod oracle;
mod questions;
mod runs;
