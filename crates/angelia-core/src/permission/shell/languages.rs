//! Programs with a language of their own that has a plain way to run a command: the text after a
//! mark is a command. Whatever else such a language can do is not looked at.

use super::{Unparsed, Word, wrappers::folded};

/// More marks in one text are not followed.
const MAX_MARKS: usize = 50;

struct Language {
    names: &'static [&'static str],
    /// Options whose value is a program in this language.
    options: &'static [&'static str],
    /// How other arguments begin that are a program.
    starts: &'static [&'static str],
    /// What stands before a command, in lower case.
    marks: &'static [&'static str],
}

const TABLE: &[Language] = &[
    Language {
        names: &["vi", "vim", "nvim", "ex", "view", "gvim", "rvim"],
        options: &["-c", "--cmd"],
        starts: &["+"],
        marks: &["!", "system("],
    },
    Language { names: &["less", "more", "most"], options: &[], starts: &["+"], marks: &["!"] },
    Language {
        names: &["gdb", "lldb"],
        options: &["-ex", "--ex", "-eval-command", "--eval-command", "-o", "--one-line"],
        starts: &["-ex=", "--ex=", "--eval-command="],
        marks: &["!", "shell "],
    },
    Language {
        names: &["expect"],
        options: &["-c"],
        starts: &[],
        marks: &["spawn ", "exec ", "system "],
    },
    Language { names: &["psql"], options: &["-c", "--command"], starts: &[], marks: &["\\!"] },
    Language {
        names: &["mysql", "mariadb"],
        options: &["-e", "--execute"],
        starts: &[],
        marks: &["\\!", "system "],
    },
    Language { names: &["sqlite3"], options: &[], starts: &["."], marks: &[".shell ", ".system "] },
    Language {
        names: &["socat"],
        options: &[],
        starts: &[""],
        marks: &["exec:", "system:", "shell:"],
    },
];

const AWKS: &[&str] = &["awk", "gawk", "mawk", "nawk", "original-awk"];

/// Returns the texts that a program runs as commands because its own program says so.
pub(super) fn commands_in_programs(
    name: &str,
    arguments: &[Word],
) -> Result<Vec<String>, Unparsed> {
    let name = folded(name);
    if AWKS.contains(&&*name) {
        let runs = arguments.iter().map(Word::known_parts).any(|text| awk_runs_commands(&text));
        return if runs { Err("a program of awk runs commands") } else { Ok(Vec::new()) };
    }
    let mut found = Vec::new();
    let Some(language) = TABLE.iter().find(|language| language.names.contains(&&*name)) else {
        return Ok(found);
    };
    let mut is_value = false;
    for word in arguments {
        let text = word.known_parts();
        let is_program = is_value || language.starts.iter().any(|start| text.starts_with(start));
        is_value = language.options.contains(&&*text);
        if is_program {
            found.extend(texts_after_marks(&text, language.marks));
        }
        if found.len() > MAX_MARKS {
            return Err("it is too long");
        }
    }
    Ok(found)
}

fn texts_after_marks(text: &str, marks: &[&str]) -> Vec<String> {
    // Only ASCII letters change, so that positions stay the same.
    let lower = text.to_ascii_lowercase();
    let found = marks.iter().flat_map(|mark| {
        let ends = lower.match_indices(mark).map(move |(at, _)| at + mark.len());
        ends.take(MAX_MARKS + 1)
    });
    let lines = found.map(|end| text[end..].lines().next().unwrap_or_default().to_owned());
    lines.collect()
}

/// Whether a program of awk calls `system`, or pipes to or from a command that it states.
fn awk_runs_commands(text: &str) -> bool {
    // Without strings and blanks.
    let mut code = String::new();
    let mut chars = text.chars();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '"' => {
                in_string = !in_string;
                code.push('"');
            }
            c if in_string || c.is_whitespace() => {}
            c => code.push(c),
        }
    }
    let code = code.replace("||", " ");
    ["system(", "|getline", "|&", "|\""].iter().any(|mark| code.contains(mark))
}
