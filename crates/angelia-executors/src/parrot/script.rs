//! Parses a prompt into the steps that the parrot executes. Pure.

use std::{fmt::Write as _, time::Duration};

use super::simulated_failure::SimulatedFailure;

/// One step of a turn. Steps run in the order of the prompt's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptStep {
    Say(String),
    Words { count: u32, gap: Duration },
    Think(String),
    Tool { name: String, takes: Duration },
    Ask { command: String },
    Write { path: String, lines: u32 },
    Question,
    Who,
    Fail(SimulatedFailure),
    Hang,
    Die,
}

/// Every directive: its syntax and its effect.
pub(super) const DIRECTIVES: &[(&str, &str)] = &[
    ("!words N [MS]", "N words, MS milliseconds apart"),
    ("!think [TEXT]", "reasoning before the answer"),
    ("!tool NAME [MS]", "a pretended tool call that takes MS milliseconds and succeeds"),
    ("!ask [COMMAND]", "asks whether a pretended shell command may run"),
    ("!write PATH [N]", "asks whether N pretended lines may be written to a file"),
    ("!question", "asks you to choose a colour"),
    ("!fail KIND", "the turn fails: auth billing invalid model rate refused server unknown"),
    ("!hang", "silence until interrupted"),
    ("!die", "the process exits in the middle of a word"),
    ("!who", "version, process, session and number of the turn"),
    ("!help", "this list"),
];

/// More words than a person reads, but few enough that the turn ends.
const MAX_WORDS: u32 = 1_000_000;
const MAX_GAP_MS: u32 = 60_000;
/// The number of lines that `!write` pretends to write.
const DEFAULT_LINES: u32 = 3;
/// Limits how much of a prompt is repeated.
const MAX_ECHO_BYTES: usize = 64 * 1024;

const DEFAULT_THOUGHT: &str =
    "A parrot does not think; it repeats. This is what thinking looks like.";
const DEFAULT_COMMAND: &str = "make everything better";

/// Parses a prompt. A line that begins with a directive becomes a step; every other line is
/// repeated. Only a prompt without any directive gets the introduction.
pub(super) fn parse_script(prompt: &str) -> Vec<ScriptStep> {
    let mut steps = Vec::new();
    let mut text = String::new();
    for line in prompt.split_inclusive('\n') {
        if let Some(step) = parse_directive(line.trim_end_matches(['\r', '\n'])) {
            echo(&mut steps, &mut text);
            steps.push(step);
        } else {
            text.push_str(line);
        }
    }
    if steps.is_empty() {
        return vec![ScriptStep::Say(introduction(text.trim()))];
    }
    echo(&mut steps, &mut text);
    steps
}

/// Returns the answer to a prompt without directives.
fn introduction(said: &str) -> String {
    let said = if said.is_empty() {
        "You said nothing.".to_owned()
    } else {
        format!("You said: {}", shortened(said))
    };
    format!(
        "Parrot, Angelia's built-in demo agent, here (no coding agent is behind this answer, and \
         nothing on this machine is read or changed). {said}\n\nFor a real agent install Claude \
         Code, log in, and run `angelia doctor`. To see what the demo can show, run \
         `angelia run '!help'`."
    )
}

fn echo(steps: &mut Vec<ScriptStep>, text: &mut String) {
    let said = text.trim();
    if !said.is_empty() {
        steps.push(ScriptStep::Say(format!("You said: {}", shortened(said))));
    }
    text.clear();
}

fn shortened(text: &str) -> String {
    if text.len() <= MAX_ECHO_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_ECHO_BYTES);
    format!("{} … and {} bytes more", &text[..end], text.len() - end)
}

/// Parses a line. Returns `None` if it does not begin with a directive. A directive with wrong
/// arguments becomes an explanation of its syntax.
fn parse_directive(line: &str) -> Option<ScriptStep> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let mut values = rest.split_whitespace();
    let step = match word {
        "!words" => words(&mut values),
        "!think" => Some(ScriptStep::Think(or_default(rest, DEFAULT_THOUGHT))),
        "!tool" => tool(&mut values),
        "!ask" => Some(ScriptStep::Ask { command: or_default(rest, DEFAULT_COMMAND) }),
        "!write" => write(&mut values),
        "!question" => Some(ScriptStep::Question),
        "!fail" => SimulatedFailure::parse(rest).map(ScriptStep::Fail),
        "!hang" => Some(ScriptStep::Hang),
        "!die" => Some(ScriptStep::Die),
        "!who" => Some(ScriptStep::Who),
        "!help" => Some(ScriptStep::Say(help())),
        _ => return None,
    };
    Some(step.unwrap_or_else(|| ScriptStep::Say(usage(word))))
}

fn or_default(text: &str, default: &str) -> String {
    if text.is_empty() { default } else { text }.to_owned()
}

fn words<'a>(values: &mut impl Iterator<Item = &'a str>) -> Option<ScriptStep> {
    let count = values.next()?.parse().ok().filter(|n| *n <= MAX_WORDS)?;
    let gap = milliseconds(values.next())?;
    Some(ScriptStep::Words { count, gap })
}

fn tool<'a>(values: &mut impl Iterator<Item = &'a str>) -> Option<ScriptStep> {
    let name = values.next()?.to_owned();
    let takes = milliseconds(values.next())?;
    Some(ScriptStep::Tool { name, takes })
}

fn write<'a>(values: &mut impl Iterator<Item = &'a str>) -> Option<ScriptStep> {
    let path = values.next()?.to_owned();
    let lines = values.next().map_or(Ok(DEFAULT_LINES), str::parse).ok()?;
    (lines <= MAX_WORDS).then_some(ScriptStep::Write { path, lines })
}

fn milliseconds(value: Option<&str>) -> Option<Duration> {
    let number: u32 = value.map_or(Ok(0), str::parse).ok()?;
    (number <= MAX_GAP_MS).then(|| Duration::from_millis(number.into()))
}

fn usage(word: &str) -> String {
    let (form, does) = DIRECTIVES
        .iter()
        .find(|(form, _)| form.split(' ').next() == Some(word))
        .copied()
        .unwrap_or((word, "unknown"));
    format!(
        "That is not how I understand it. {form}: {does}. N is at most {MAX_WORDS}, MS at most \
         {MAX_GAP_MS}."
    )
}

fn help() -> String {
    let mut text = "I am a demo. At the start of a line I understand:\n".to_owned();
    for (form, does) in DIRECTIVES {
        let _cannot_fail = write!(text, "\n{form}: {does}");
    }
    text.push_str("\n\nAny other text is repeated.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(steps: &[ScriptStep]) -> Vec<&str> {
        steps
            .iter()
            .filter_map(|step| match step {
                ScriptStep::Say(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn plain_text_is_repeated_with_an_introduction() {
        let steps = parse_script("hello there");
        assert_eq!(steps.len(), 1);
        let text = said(&steps)[0];
        assert!(text.contains("demo agent"), "{text}");
        assert!(text.contains("You said: hello there"), "{text}");
        assert!(text.contains("angelia doctor"), "{text}");
    }

    #[test]
    fn lines_are_carried_out_in_order_and_the_rest_is_repeated() {
        let steps = parse_script("first\n!words 3 5\r\n!tool Read 7\nlast\n");
        assert_eq!(
            steps,
            [
                ScriptStep::Say("You said: first".into()),
                ScriptStep::Words { count: 3, gap: Duration::from_millis(5) },
                ScriptStep::Tool { name: "Read".into(), takes: Duration::from_millis(7) },
                ScriptStep::Say("You said: last".into()),
            ]
        );
    }

    #[test]
    fn an_unknown_word_or_one_inside_a_line_is_text() {
        for prompt in ["!important", "say !die", " !die", "!died", "!"] {
            let steps = parse_script(prompt);
            assert_eq!(steps.len(), 1, "{prompt}");
            assert!(said(&steps)[0].contains("You said:"), "{prompt}");
        }
    }

    #[test]
    fn wrong_use_is_explained() {
        for prompt in [
            "!words",
            "!words many",
            "!words 2000000",
            "!words 1 60001",
            "!tool",
            "!tool Read soon",
            "!fail",
            "!fail somehow",
        ] {
            let steps = parse_script(prompt);
            assert!(said(&steps)[0].contains("not how I understand"), "{prompt}");
        }
    }

    #[test]
    fn every_directive_is_understood_and_every_kind_listed() {
        let filled = |word: &str| {
            match word {
                "N" | "[N]" => "2",
                "PATH" => "notes.txt",
                "[MS]" => "3",
                "NAME" => "Read",
                "KIND" => "auth",
                other => other,
            }
            .to_owned()
        };
        for (form, _) in DIRECTIVES {
            let words: Vec<String> = form.split(' ').map(filled).collect();
            let line = words.join(" ");
            let steps = parse_script(&line);
            assert!(
                said(&steps).iter().all(|text| text.contains("At the start")),
                "{line}: {steps:?}"
            );
        }
        let listed = help();
        for kind in SimulatedFailure::ALL {
            assert_eq!(SimulatedFailure::parse(kind.word()), Some(kind));
            assert!(listed.contains(kind.word()));
        }
    }

    #[test]
    fn a_giant_prompt_is_repeated_in_part() {
        let steps = parse_script(&"ä".repeat(MAX_ECHO_BYTES));
        assert!(said(&steps)[0].contains("bytes more"));
        assert!(said(&steps)[0].len() < MAX_ECHO_BYTES + 1024);
    }
}
