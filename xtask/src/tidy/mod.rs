//! Project rules that the compiler does not check. Each rule is a function from text to problems,
//! with its own tests.

mod checklist;
mod code_lines;
mod contents;
mod crates;
mod files;
mod functions;
mod links;
mod places;
mod type_names;
mod versions;

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context as _, Result};

use crate::program::{command, output};

/// One violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Problem {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

/// A tracked text file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Relative to the workspace's root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn run() -> Result<ExitCode> {
    Ok(if check()? == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints every problem and returns their number.
pub(crate) fn check() -> Result<usize> {
    let root = crate::root();
    let sources = sources(&root)?;
    let mut problems = Vec::new();
    for source in &sources {
        problems.extend(files::check(source));
        problems.extend(functions::check(source));
        problems.extend(places::check(source));
        problems.extend(crates::check(source));
    }
    problems.extend(type_names::check(&sources));
    problems.extend(versions::check(&sources));
    problems.extend(checklist::check(&sources));
    problems.extend(contents::check(&sources));
    problems.extend(links::check(&sources, &|path| root.join(path).exists()));
    for problem in &problems {
        eprintln!("{}:{}: {}", problem.path, problem.line, problem.message);
    }
    let lines = code_lines::count(&sources);
    eprintln!("{} files, {lines} lines of code, {} problems", sources.len(), problems.len());
    Ok(problems.len())
}

/// Returns all text files that git tracks or would track.
fn sources(root: &Path) -> Result<Vec<SourceFile>> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let paths = output(command("git").args(list))?
        .context("cannot list the files; tidy needs git and a checkout")?;
    let mut sources = Vec::new();
    for path in paths.split('\0').filter(|path| !path.is_empty()) {
        // Skip a file that is deleted but not yet committed, and a file that is not text.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            sources.push(SourceFile { path: path.to_owned(), text });
        }
    }
    Ok(sources)
}
