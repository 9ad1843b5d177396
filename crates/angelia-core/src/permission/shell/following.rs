//! Follows wrappers to the commands that they run.

use super::{
    Unparsed, Word,
    assignment::split_known_assignment,
    invocations::Invocations,
    nested_shells::Input,
    parse,
    wrappers::{
        ArgumentForm, Body, InputShell, Names, PrefixWrapper, Subcommands, folded, is_among,
    },
};

/// What stands for the file that `find` or `fd` has found.
const FOUND_FILE: [&str; 5] = ["{}", "{/}", "{//}", "{.}", "{/.}"];

impl Invocations {
    /// Follows a command to the one that stands after its options and operands. `arguments`: without
    /// the command's own name.
    pub(super) fn add_prefixed(
        &mut self,
        arguments: &[Word],
        wrapper: &PrefixWrapper,
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        let mut operands = wrapper.operands;
        let mut rest = arguments;
        let mut has_script = false;
        while let Some((word, after)) = rest.split_first() {
            if wrapper.assignments
                && let Some((name, value)) = split_known_assignment(word)
            {
                self.note_assignment(&name, &value, nesting)?;
                rest = after;
                continue;
            }
            let text = word.literal().ok_or("an argument before a command is not literal")?;
            if text == "--" {
                // Operands and assignments follow.
                rest = after;
                continue;
            }
            let (value, after_value) =
                after.split_first().map_or((None, after), |(value, after)| {
                    (Some(value).filter(|value| value.is_one_argument()), after)
                });
            match wrapper.form(&text) {
                ArgumentForm::Operand if operands == 0 => break,
                ArgumentForm::Operand => {
                    operands -= 1;
                    rest = after;
                }
                ArgumentForm::Idle => return Ok(()),
                ArgumentForm::Flag => rest = after,
                ArgumentForm::ValueFollows => {
                    if value.is_none() && !after.is_empty() {
                        return Err("an argument before a command is not literal");
                    }
                    rest = after_value;
                }
                ArgumentForm::Script(glued) => {
                    let script = glued.map(str::to_owned).or_else(|| value?.plain_text());
                    self.add_script(&script.ok_or("a script is not literal")?, nesting)?;
                    has_script = true;
                    rest = if glued.is_some() { after } else { after_value };
                }
                ArgumentForm::Split(glued) => {
                    let text = glued.map(str::to_owned).or_else(|| value?.plain_text());
                    let after = if glued.is_some() { after } else { after_value };
                    let mut words = split_string(&text.ok_or("a script is not literal")?)?;
                    words.extend_from_slice(after);
                    return self.add_prefixed(&words, wrapper, input, nesting);
                }
                ArgumentForm::Unknown if wrapper.is_strict => {
                    return Err("an option before a command is not known");
                }
                ArgumentForm::Unknown => return self.add_any(rest, input, nesting),
            }
        }
        let starts_shell = match wrapper.shell {
            InputShell::Never => false,
            InputShell::AfterOperands => operands == 0,
            InputShell::Always => true,
        };
        match wrapper.body {
            _ if rest.is_empty() && starts_shell && !has_script => self.add_input(input, nesting),
            _ if rest.is_empty() => Ok(()),
            Body::Words => self.add_words(rest, input, nesting),
            Body::Script => self.add_script(&joined(rest)?, nesting),
            Body::Template => self.add_template(rest, nesting),
        }
    }

    /// Follows `git bisect run` and its like.
    pub(super) fn add_subcommands(
        &mut self,
        arguments: &[Word],
        subcommands: &Subcommands,
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        let index = subcommand_index(arguments, subcommands.valued);
        let (options, others) = arguments.split_at(index);
        if options.iter().any(Word::can_split) || others.first().is_some_and(Word::has_hole) {
            return Err("the name of a subcommand is not literal");
        }
        for subcommand in subcommands.all {
            let mut rest = Some(arguments);
            for name in subcommand.path.split_ascii_whitespace() {
                rest = rest.and_then(|words| {
                    let at = words.iter().position(|word| word.start() == name)?;
                    words.get(at + 1..)
                });
            }
            if let Some(rest) = rest {
                self.add_prefixed(rest, &subcommand.wrapper, input, nesting)?;
            }
        }
        Ok(())
    }

    /// Follows `parallel`: a command in which `{…}` stands for arguments, or commands as arguments.
    fn add_template(&mut self, words: &[Word], nesting: usize) -> Result<(), Unparsed> {
        let is_list = |word: &&Word| word.start().starts_with(":::");
        let length = words.iter().position(|word| is_list(&word)).unwrap_or(words.len());
        let (command, arguments) = words.split_at(length);
        for text in command.iter().filter_map(Word::literal).filter(|text| !text.contains('{')) {
            // In some versions each argument is a command.
            self.add_script(&with_argument(&text), nesting)?;
        }
        if !command.is_empty() {
            return self.add_script(&with_argument(&joined(command)?), nesting);
        }
        let commands = arguments.iter().filter(|word| !is_list(word));
        commands.into_iter().try_for_each(|word| {
            let text = word.literal().ok_or("the name of a command is not literal")?;
            self.add_script(&text, nesting)
        })
    }

    /// Follows `find`, `fd` and their like.
    pub(super) fn add_find(
        &mut self,
        words: &[Word],
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        let is_fd = words[0].literal().is_some_and(|name| folded(&name).contains("fd"));
        let mut holes = 0_usize;
        let mut rest = &words[1..];
        let mut ends = 0_usize;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if word.can_split() {
                return Err("an argument of find is not literal");
            }
            holes += usize::from(word.has_hole());
            let text = word.plain_text().unwrap_or_default();
            ends += usize::from(text == ";" || text == "+");
            let is_exec = matches!(
                &*text,
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
            );
            let glued = text_after_exec(&text).filter(|_| is_fd && !is_exec);
            if !is_exec && glued.is_none() {
                continue;
            }
            let length = rest.iter().position(|word| word.plain_text().as_deref() == Some(";"));
            let (command, after) = rest.split_at(length.unwrap_or(rest.len()));
            let glued = glued.filter(|text| !text.is_empty()).map(Word::known);
            let with_holes = |word: &Word| {
                FOUND_FILE.iter().fold(word.clone(), |word, text| with_hole(&word, text))
            };
            let command: Vec<Word> = glued.iter().chain(command).map(with_holes).collect();
            self.add_words(&command, input, nesting)?;
            if is_exec {
                rest = after.get(1..).unwrap_or_default();
            }
        }
        if holes > 1 || holes > 0 && ends > 0 {
            return Err("an argument of find is not literal");
        }
        Ok(())
    }

    /// Treats every argument as the start of a command, and as a script if it looks like one.
    pub(super) fn add_any(
        &mut self,
        words: &[Word],
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        for (index, word) in words.iter().enumerate() {
            let text = word.literal().ok_or("an argument before a command is not literal")?;
            if !text.starts_with('-') {
                self.add_start(&text, &words[index + 1..], input, nesting)?;
                continue;
            }
            // The value may stand in the same argument.
            if let Some((_, value)) = text.split_once('=') {
                self.add_start(value, &words[index + 1..], input, nesting)?;
            } else if let Some(value) = text.get(2..).filter(|_| !text.starts_with("--")) {
                self.add_start(value, &words[index + 1..], input, nesting)?;
            }
        }
        Ok(())
    }

    fn add_start(
        &mut self,
        text: &str,
        rest: &[Word],
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        if text.contains([' ', '\t', '\n', ';', '&', '|', '<', '>', '$', '`', '(', '{']) {
            self.add_script(text, nesting)?;
        }
        if text.is_empty() {
            return Ok(());
        }
        let mut words = vec![Word::known(text)];
        words.extend_from_slice(rest);
        self.add_words(&words, input, nesting + 1)
    }
}

/// The arguments in the value of `env -S`, which has escapes and variables of its own.
fn split_string(text: &str) -> Result<Vec<Word>, Unparsed> {
    if text.contains(['\\', '$', '#', '`']) {
        return Err("`env -S` has escapes");
    }
    // A name before the words, so that they are arguments: `-i A=1 …`.
    let mut commands = parse(&format!("env {text}"))?.commands;
    let command = commands.pop().filter(|_| commands.is_empty());
    let command = command.filter(|command| command.redirects.is_empty());
    let words = command.ok_or("`env -S` has operators")?.words;
    Ok(words.into_iter().skip(1).collect())
}

/// The index of the first argument that is neither an option nor the value of one.
pub(super) fn subcommand_index(arguments: &[Word], valued: Names) -> usize {
    let mut index = 0;
    while let Some(start) = arguments.get(index).map(Word::start) {
        if !start.starts_with('-') {
            break;
        }
        index += if is_among(valued, &start) { 2 } else { 1 };
    }
    index.min(arguments.len())
}

fn joined(words: &[Word]) -> Result<String, Unparsed> {
    let texts: Option<Vec<String>> = words.iter().map(Word::literal).collect();
    Ok(texts.ok_or("the script of a command is not literal")?.join(" "))
}

/// The command of `parallel` with a variable for each `{…}`, and one at the end.
fn with_argument(text: &str) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let end = after.find(|c: char| c == '}' || c.is_whitespace());
        filled.push_str(before);
        if let Some(end) = end.filter(|end| after[*end..].starts_with('}')) {
            filled.push_str("$X");
            rest = &after[end + 1..];
        } else {
            filled.push('{');
            rest = after;
        }
    }
    filled + rest + " $X"
}

/// The text after an option of `fd` that runs a command, in the same argument.
fn text_after_exec(text: &str) -> Option<&str> {
    let value = ["--exec=", "--exec-batch="].iter().find_map(|option| text.strip_prefix(option));
    let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    value.or_else(|| letters.and_then(|rest| Some(&rest[rest.find(['x', 'X'])? + 1..])))
}

/// Returns the words of `xargs` with holes in place of the arguments that it reads.
pub(super) fn with_xargs_holes(words: &[Word]) -> Vec<Word> {
    let mut replaced: Vec<String> = Vec::new();
    let mut texts = words.iter().map(|word| word.plain_text().unwrap_or_default());
    while let Some(text) = texts.next() {
        match &*text {
            "-I" | "-J" => replaced.extend(texts.next()),
            "-i" | "--replace" => replaced.push("{}".to_owned()),
            _ => {
                let value = ["-I", "-J", "-i", "--replace="]
                    .iter()
                    .find_map(|option| text.strip_prefix(option));
                replaced.extend(value.filter(|value| !value.is_empty()).map(str::to_owned));
            }
        }
    }
    // The options themselves stay as they are.
    let is_option_value = |index: usize| {
        index > 0 && matches!(words[index - 1].plain_text().as_deref(), Some("-I" | "-J"))
            || words[index].plain_text().is_some_and(|text| text.starts_with('-'))
    };
    let mut words: Vec<Word> = words
        .iter()
        .enumerate()
        .map(|(index, word)| {
            if is_option_value(index) {
                return word.clone();
            }
            replaced.iter().fold(word.clone(), |word, text| with_hole(&word, text))
        })
        .collect();
    words.push(Word::hole(false));
    words
}

/// Returns a hole if the word contains `text`, which is replaced when the command runs.
fn with_hole(word: &Word, text: &str) -> Word {
    let contains = word.plain_text().is_none_or(|known| known.contains(text));
    if contains { Word::hole(true) } else { word.clone() }
}
