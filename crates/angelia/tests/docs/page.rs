//! The instructions of a page, in order: write files, and type commands.
//!
//! `console no-run: REASON` is a block that nothing can run, and `console run-elsewhere: COMMAND` one
//! that another test runs: the packages are installed in `cargo xtask test full`.
//!
//! A command is a line of a `console` block that begins with `$ `; the lines after it are what it
//! prints. A file is any other block after a line that ends with ``In `NAME`:``.

/// One page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    File { name: String, text: String },
    Command { line: usize, command: String, prints: Vec<String> },
    Skipped { line: usize, reason: String },
}

struct Block {
    line: usize,
    info: String,
    /// The file that the line before the block names.
    file: Option<String>,
    lines: Vec<String>,
}

impl Page {
    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let steps = blocks(text).into_iter().flat_map(Block::into_steps).collect();
        Self { name: name.to_owned(), steps }
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        let indentation = line.len() - line.trim_start().len();
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => {
                let info = info.trim().to_owned();
                let file = named_file(before);
                open =
                    Some((Block { line: index + 1, info, file, lines: Vec::new() }, indentation));
            }
            (None, None) if !line.trim().is_empty() => before = line,
            (None, None) => {}
            (Some(_), Some(_)) => {
                found.extend(open.take().map(|(block, _)| block));
                before = "";
            }
            (Some((block, indentation)), None) => {
                block.lines.push(line.get(*indentation..).unwrap_or_default().to_owned());
            }
        }
    }
    found
}

fn named_file(line: &str) -> Option<String> {
    let (before, name) = line.strip_suffix("`:")?.rsplit_once('`')?;
    before.to_lowercase().ends_with("in ").then(|| name.to_owned())
}

impl Block {
    fn into_steps(self) -> Vec<Step> {
        if let Some(reason) = self.info.strip_prefix("console no-run") {
            let reason = reason.trim_start_matches(':').trim().to_owned();
            return vec![Step::Skipped { line: self.line, reason }];
        }
        if self.info.starts_with("console run-elsewhere:") {
            return Vec::new();
        }
        if self.info != "console" {
            let text = self.lines.join("\n") + "\n";
            return self.file.map(|name| Step::File { name, text }).into_iter().collect();
        }
        let mut steps = Vec::new();
        for (index, line) in self.lines.into_iter().enumerate() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step::Command {
                    line: self.line + index + 1,
                    command: command.to_owned(),
                    prints: Vec::new(),
                }),
                (None, Some(Step::Command { prints, .. })) if !line.is_empty() => prints.push(line),
                _ => {}
            }
        }
        steps
    }
}

#[test]
fn a_page_is_files_and_commands() {
    let text = "Text.\n\nIn `~/x.yaml`:\n\n```yaml\na: 1\n```\n\n```console\n$ one\nit prints\n$ two\n```\n\
                - item\n\n  ```console no-run: because\n  $ three\n  ```\n\n```yaml\nb: 2\n```\n";
    let command = |line, command: &str, prints: &[&str]| Step::Command {
        line,
        command: command.to_owned(),
        prints: prints.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(
        Page::parse("x.md", text).steps,
        [
            Step::File { name: "~/x.yaml".to_owned(), text: "a: 1\n".to_owned() },
            command(10, "one", &["it prints"]),
            command(12, "two", &[]),
            Step::Skipped { line: 16, reason: "because".to_owned() },
        ]
    );
}
