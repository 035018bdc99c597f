//! What the programs work on: generated data, embedded sources, compiled guests.
//!
//! Every input is a function of fixed seeds and of the sources in `benches/programs`, which are
//! embedded so that the benchmark is one file. An input is made in the work directory on first use
//! and shared by the programs that name it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::random::Random;
use crate::{c_source, tools};

/// One file (or set of files) in the work directory.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// Prose-like text of about `bytes` bytes.
    Text { file: &'static str, bytes: usize },
    /// `count` lines in random order, many sharing long prefixes.
    Lines { file: &'static str, count: usize },
    /// A script or other source as it is.
    Source { file: &'static str, text: &'static str },
    /// A C program, compiled to an executable.
    CProgram { executable: &'static str, text: &'static str },
    /// A C++ program, compiled to an executable.
    CxxProgram { executable: &'static str, text: &'static str },
    /// A Java class, compiled.
    JavaClass { class: &'static str, text: &'static str },
    /// A generated C file, run through the preprocessor.
    PreprocessedC { file: &'static str, functions: usize },
}

impl Input {
    /// The programs of the system that making this input needs.
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Text { .. } | Self::Lines { .. } | Self::Source { .. } => &[],
            Self::CProgram { .. } | Self::PreprocessedC { .. } => &["gcc"],
            Self::CxxProgram { .. } => &["g++"],
            Self::JavaClass { .. } => &["javac"],
        }
    }

    /// The file whose presence says that the input has been made.
    fn product(self) -> String {
        match self {
            Self::Text { file, .. }
            | Self::Lines { file, .. }
            | Self::Source { file, .. }
            | Self::PreprocessedC { file, .. } => file.to_owned(),
            Self::CProgram { executable, .. } | Self::CxxProgram { executable, .. } => {
                executable.to_owned()
            }
            Self::JavaClass { class, .. } => format!("{class}.class"),
        }
    }

    /// Makes the input unless an earlier program did.
    pub fn make(self, directory: &Path) -> Result<()> {
        let product = self.product();
        if directory.join(&product).exists() {
            return Ok(());
        }
        self.generate(directory).with_context(|| format!("making {product}"))
    }

    fn generate(self, directory: &Path) -> Result<()> {
        let write = |file: &str, contents: &[u8]| fs::write(directory.join(file), contents);
        match self {
            Self::Text { file, bytes } => write(file, text(bytes).as_bytes())?,
            Self::Lines { file, count } => write(file, lines(count).as_bytes())?,
            Self::Source { file, text } => write(file, text.as_bytes())?,
            Self::CProgram { executable, text } => {
                let source = format!("{executable}.c");
                write(&source, text.as_bytes())?;
                let command = ["gcc", "-O2", "-pthread", "-o", executable, &source, "-lm"];
                build(directory, &command)?;
            }
            Self::CxxProgram { executable, text } => {
                let source = format!("{executable}.cpp");
                write(&source, text.as_bytes())?;
                build(directory, &["g++", "-O2", "-std=c++17", "-o", executable, &source])?;
            }
            Self::JavaClass { class, text } => {
                let source = format!("{class}.java");
                write(&source, text.as_bytes())?;
                build(directory, &["javac", &source])?;
            }
            Self::PreprocessedC { file, functions } => {
                let source = format!("{file}.c");
                write(&source, c_source::generate(functions).as_bytes())?;
                build(directory, &["gcc", "-E", "-o", file, &source])?;
            }
        }
        Ok(())
    }
}

fn build(directory: &Path, words: &[&str]) -> Result<()> {
    let program =
        tools::locate(words[0]).with_context(|| format!("{} is not installed", words[0]))?;
    let output = Command::new(program).args(&words[1..]).current_dir(directory).output()?;
    if !output.status.success() {
        bail!(
            "{}: {}\n{}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// Words made of syllables; the first are short, as frequent words are.
fn vocabulary(size: usize, random: &mut Random) -> Vec<String> {
    const ONSETS: [&str; 24] = [
        "b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st",
        "tr", "pl", "ch", "sh", "br", "",
    ];
    const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ea", "ou", "y"];
    const CODAS: [&str; 12] = ["", "", "", "n", "r", "s", "t", "l", "nd", "ng", "ck", "m"];
    let syllable = |random: &mut Random| {
        [*random.pick(&ONSETS), *random.pick(&VOWELS), *random.pick(&CODAS)].concat()
    };
    (0..size)
        .map(|rank| {
            let syllables = 1 + random.below(1 + (rank + 1).ilog2() as usize / 4);
            (0..syllables).map(|_| syllable(random)).collect()
        })
        .collect()
}

/// Sentences and paragraphs of skewed word frequencies, with a few numbers and with phrases that
/// come back, as they do in prose: text that compresses about as well and as fast.
fn text(bytes: usize) -> String {
    const PHRASE: usize = 60;
    let mut random = Random::new(0x7e57);
    let words = vocabulary(20_000, &mut random);
    let mut text = String::with_capacity(bytes + 1024);
    while text.len() < bytes {
        let length = 4 + random.below(18);
        for position in 0..length {
            let end = if position + 1 == length { "." } else { " " };
            match random.below(60) {
                0 => text.push_str(&random.below(10_000).to_string()),
                1..12 if text.len() > 30_000 => {
                    let start = text.len() - PHRASE - random.below(24_000);
                    let length = PHRASE / 4 + random.below(PHRASE);
                    let phrase = text[start..].chars().take(length).collect::<String>();
                    text.push_str(&phrase);
                }
                12..15 => {
                    text.push_str(&words[random.skewed(words.len())]);
                    text.push(',');
                }
                _ => text.push_str(&words[random.skewed(words.len())]),
            }
            text.push_str(end);
        }
        text.push_str(if random.below(6) == 0 { "\n\n" } else { "\n" });
    }
    text
}

fn lines(count: usize) -> String {
    let mut random = Random::new(0x50f7);
    let words = vocabulary(300, &mut random);
    let mut lines = String::new();
    for _ in 0..count {
        let (section, name) = (random.skewed(words.len()), random.below(words.len()));
        lines.push_str(&format!(
            "{}/{}/{:06}\n",
            words[section],
            words[name],
            random.below(1_000_000)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workdir::WorkDirectory;

    #[test]
    fn text_is_reproducible_and_of_the_asked_size() {
        let first = text(10_000);
        assert_eq!(first, text(10_000));
        assert!((10_000..12_000).contains(&first.len()), "{}", first.len());
        assert!(first.is_ascii());
    }

    #[test]
    fn lines_are_as_many_as_asked() {
        assert_eq!(lines(100).lines().count(), 100);
    }

    #[test]
    fn an_input_is_made_once() {
        let directory = WorkDirectory::create().expect("creates");
        Input::Source { file: "script", text: "first" }.make(directory.path()).expect("makes");
        Input::Source { file: "script", text: "second" }.make(directory.path()).expect("makes");
        assert_eq!(fs::read_to_string(directory.path().join("script")).expect("reads"), "first");
    }
}
