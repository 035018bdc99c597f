//! Texts generated from the command line's definition: completion scripts and the manual page.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;

/// Prints the completion script for `shell`.
pub fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "retro", &mut text);
    print(&text)
}

/// Prints the manual page.
pub fn manual() -> Result<()> {
    print(&manual_page()?)
}

/// One page: `retro` itself, then a section for each subcommand.
fn manual_page() -> io::Result<Vec<u8>> {
    let mut command = Arguments::command();
    command.build();
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = subcommand.get_name().to_uppercase();
        text.extend_from_slice(format!(".SH \"RETRO {name}\"\n").as_bytes());
        let page = Man::new(subcommand.clone());
        let mut sections = Vec::new();
        page.render_synopsis_section(&mut sections)?;
        page.render_description_section(&mut sections)?;
        page.render_options_section(&mut sections)?;
        if subcommand.get_after_help().is_some() {
            page.render_extra_section(&mut sections)?;
        }
        text.extend_from_slice(subsections(&sections).as_bytes());
    }
    page.render_extra_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.replace(".SH EXTRA\nExamples:", ".SH EXAMPLES").into_bytes())
}

/// Sections of a page of its own as parts of a section. What the generator calls "extra" starts
/// with the word "Examples:" and needs no heading.
fn subsections(sections: &[u8]) -> String {
    let text = String::from_utf8_lossy(sections);
    text.replace(".SH EXTRA", ".PP").replace(".SH ", ".SS ")
}

fn print(text: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text).and_then(|()| stdout.flush()).context("cannot write to stdout")
}
