//! Follows wrappers and nested shells from the commands of a script to the programs they start.

use super::{
    Piece, Redirect, RedirectKind, Script, SimpleCommand, Unparsed, Word,
    assignment::{is_name, split_assignment},
    parse,
    parser::{is_keyword, starts_construct},
    wrappers::{PrefixWrapper, Wrapper, find_wrapper, runs_its_value},
};

/// Nested wrappers beyond this are not followed.
const MAX_NESTING: usize = 12;
const MAX_INVOCATIONS: usize = 5000;

/// A program that is started, with its arguments. The first word is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The name without the folder.
    pub(crate) name: String,
    pub(crate) words: Vec<Word>,
    /// Its arguments are another command, which is listed too.
    pub(crate) is_wrapper: bool,
}

impl Invocation {
    /// `None` if the name is not known.
    fn of_words(words: Vec<Word>) -> Option<Self> {
        let path = words.first()?.literal()?;
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let wrapper = find_wrapper(&name);
        let is_wrapper = !matches!(wrapper, None | Some(Wrapper::Find | Wrapper::SetsVariables));
        Some(Self { name, words, is_wrapper })
    }
}

/// All programs that a command line starts, as far as its text tells.
#[derive(Debug, Default)]
pub(crate) struct Invocations {
    pub(crate) all: Vec<Invocation>,
    pub(crate) redirects: Vec<Redirect>,
    arithmetic_names: Vec<String>,
    text_names: Vec<String>,
}

impl Invocations {
    /// Returns the invocations of a script. `Err` says why they cannot be told from its text.
    pub(crate) fn of_script(text: &str) -> Result<Self, Unparsed> {
        let mut found = Self::default();
        found.add_script(text, 0)?;
        found.finish()
    }

    /// Returns the invocations of a program with its arguments.
    pub(crate) fn of_argv(argv: &[&str]) -> Result<Self, Unparsed> {
        let mut found = Self::default();
        let words = argv.iter().map(|argument| Word::known(argument)).collect();
        let command = SimpleCommand { words, ..SimpleCommand::default() };
        found.add_command(&command, &Script::default(), 0)?;
        found.finish()
    }

    /// Returns the commands that are known of a script whose text does not tell everything it runs.
    pub(crate) fn of_parsed(script: Script) -> Self {
        let mut found = Self::default();
        for command in script.commands {
            found.redirects.extend(command.redirects);
            found.all.extend(Invocation::of_words(command.words));
        }
        found
    }

    /// Returns a program with its arguments, without those that it starts.
    pub(crate) fn of_known(argv: &[&str]) -> Self {
        let words = argv.iter().map(|argument| Word::known(argument)).collect();
        Self { all: Invocation::of_words(words).into_iter().collect(), ..Self::default() }
    }

    fn finish(self) -> Result<Self, Unparsed> {
        let is_text = |name: &String| name == "1" || self.text_names.contains(name);
        if self.arithmetic_names.iter().any(is_text) {
            return Err("a variable that holds text is evaluated as arithmetic");
        }
        if self.text_names.iter().any(|name| runs_its_value(name)) {
            return Err("it sets a variable whose value the shell runs");
        }
        Ok(self)
    }

    fn add_script(&mut self, text: &str, nesting: usize) -> Result<(), Unparsed> {
        if nesting > MAX_NESTING {
            return Err("it is nested too deeply");
        }
        let script = parse(text)?;
        self.arithmetic_names.extend_from_slice(&script.arithmetic_names);
        self.text_names.extend_from_slice(&script.text_names);
        script.commands.iter().try_for_each(|command| self.add_command(command, &script, nesting))
    }

    fn add_command(
        &mut self,
        command: &SimpleCommand,
        script: &Script,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        for assignment in &command.assignments {
            self.note_assignment(&assignment.name, &assignment.value)?;
        }
        self.redirects.extend_from_slice(&command.redirects);
        self.add_words(&command.words, &Input { command, script }, nesting)
    }

    fn note_assignment(&mut self, name: &str, value: &Word) -> Result<(), Unparsed> {
        if runs_its_value(name) {
            return Err("it sets a variable whose value the shell runs");
        }
        if !value.is_numeric() {
            self.text_names.push(name.to_owned());
        }
        Ok(())
    }

    fn add_words(
        &mut self,
        words: &[Word],
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        if nesting > MAX_NESTING || self.all.len() > MAX_INVOCATIONS {
            return Err("it is nested too deeply");
        }
        // Keywords and assignments can follow a wrapper: `time -p if A=1 …`.
        let mut words = words;
        while let Some((first, rest)) = words.split_first() {
            if let Some((name, value)) = split_assignment(first) {
                self.note_assignment(&name, &value)?;
            } else if !first.bare().is_some_and(is_keyword) {
                break;
            }
            words = rest;
        }
        let Some(first) = words.first() else { return Ok(()) };
        if nesting > 0 && first.bare().is_some_and(starts_construct) {
            return Err("a construct follows another command");
        }
        let invocation = Invocation::of_words(words.to_vec());
        let invocation = invocation.ok_or("the name of a command is not literal")?;
        let name = invocation.name.clone();
        self.all.push(invocation);
        let next = nesting + 1;
        match find_wrapper(&name) {
            None => Ok(()),
            Some(Wrapper::Prefix(wrapper)) => self.add_prefixed(words, wrapper, input, next),
            Some(Wrapper::Xargs(wrapper)) => {
                let words = with_xargs_holes(words);
                self.add_prefixed(&words, wrapper, input, next)
            }
            Some(Wrapper::Find) => self.add_find(words, input, next),
            Some(Wrapper::Shell) => self.add_shell(words, input, next),
            Some(Wrapper::Trap) => self.add_trap(words, next),
            Some(Wrapper::AnyArgument) => self.add_any(&words[1..], input, next),
            Some(Wrapper::Opaque) => Err("it runs text as a command"),
            Some(Wrapper::SetsVariables) => self.note_variables(&name, &words[1..]),
        }
    }

    fn add_prefixed(
        &mut self,
        words: &[Word],
        wrapper: PrefixWrapper,
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        let mut operands = wrapper.operands;
        let mut rest = &words[1..];
        while let Some((word, after)) = rest.split_first() {
            if wrapper.assignments
                && let Some((name, value)) = split_known_assignment(word)
            {
                self.note_assignment(&name, &value)?;
                rest = after;
                continue;
            }
            let text = word.literal().ok_or("an argument before a command is not literal")?;
            if text == "--" {
                rest = after;
                // Operands and assignments follow.
                continue;
            }
            let is_option = text.starts_with('-') && text.len() > 1;
            if is_option && wrapper.valued.contains(&&*text) {
                rest = after.get(1..).unwrap_or_default();
            } else if is_option && is_known_option(&text, &wrapper) {
                rest = after;
            } else if is_option {
                return self.add_any(rest, input, nesting);
            } else if operands > 0 {
                operands -= 1;
                rest = after;
            } else {
                break;
            }
        }
        self.add_words(rest, input, nesting)
    }

    fn add_find(
        &mut self,
        words: &[Word],
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
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
            let runs = matches!(
                &*text,
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
            );
            if !runs {
                continue;
            }
            let length = rest.iter().position(|word| word.plain_text().as_deref() == Some(";"));
            let (command, after) = rest.split_at(length.unwrap_or(rest.len()));
            let command: Vec<Word> = command.iter().map(|word| with_hole(word, "{}")).collect();
            self.add_words(&command, input, nesting)?;
            rest = after.get(1..).unwrap_or_default();
        }
        if holes > 1 || holes > 0 && ends > 0 {
            return Err("an argument of find is not literal");
        }
        Ok(())
    }

    fn add_shell(
        &mut self,
        words: &[Word],
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        let mut rest = &words[1..];
        let (mut takes_script, mut reads_input) = (false, false);
        while let Some((word, after)) = rest.split_first() {
            let text = word.literal().ok_or("an argument of a shell is not literal")?;
            if text == "--" || text == "-" {
                rest = after;
                break;
            }
            if let Some(long) = text.strip_prefix("--") {
                if let Some(script) = long.strip_prefix("command=") {
                    return self.add_script(script, nesting);
                }
                takes_script |= long == "command";
                let has_value = matches!(long, "rcfile" | "init-file" | "emulate");
                rest = if has_value { after.get(1..).unwrap_or_default() } else { after };
            } else if text.len() > 1 && text.starts_with(['-', '+']) {
                takes_script |= text.starts_with('-') && text.contains('c');
                reads_input |= text.contains('s');
                let has_value = text.ends_with(['o', 'O']);
                rest = if has_value { after.get(1..).unwrap_or_default() } else { after };
            } else {
                break;
            }
        }
        match rest.first() {
            Some(word) if takes_script => {
                let script = word.plain_text().filter(|_| word.literal().is_some());
                self.add_script(&script.ok_or("the script of a shell is not literal")?, nesting)
            }
            Some(word) if !reads_input => {
                // The content of a script file is unknown here.
                let file = word.literal().ok_or("the script of a shell is not literal")?;
                let is_stream =
                    file == "-" || file.starts_with("/dev/") || file.starts_with("/proc");
                if is_stream { Err("a shell reads its script from its input") } else { Ok(()) }
            }
            None if takes_script => Err("a shell has no script"),
            _ => {
                let script = input.known_text().ok_or("a shell reads its script from its input")?;
                self.add_script(&script, nesting)
            }
        }
    }

    fn add_trap(&mut self, words: &[Word], nesting: usize) -> Result<(), Unparsed> {
        let mut operands = words[1..].iter().map(Word::plain_text);
        let operand = operands.find(|text| text.as_deref() != Some("--"));
        match operand {
            None => Ok(()),
            Some(None) => Err("the script of a trap is not literal"),
            Some(Some(text)) if matches!(&*text, "-" | "-l" | "-p" | "") => Ok(()),
            Some(Some(text)) => self.add_script(&text, nesting),
        }
    }

    /// Treats every argument as the start of a command, and as a script if it looks like one.
    fn add_any(
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

    /// Notes the variables that a command sets, and refuses values that it would evaluate.
    fn note_variables(&mut self, name: &str, words: &[Word]) -> Result<(), Unparsed> {
        let evaluates = matches!(name, "let" | "integer" | "float");
        if names_unknown_variable(name, words) {
            return Err("the name of a variable is not literal");
        }
        for word in words {
            let Some(text) = word.plain_text() else {
                if evaluates {
                    return Err("an arithmetic expression is not literal");
                }
                if let Some((name, value)) = split_known_assignment(word) {
                    self.note_assignment(&name, &value)?;
                }
                continue;
            };
            let is_declaration =
                matches!(name, "declare" | "typeset" | "local" | "readonly" | "export");
            if is_declaration && text.starts_with(['-', '+']) && text.contains(['i', 'n', 'E', 'F'])
            {
                return Err("a variable is evaluated as arithmetic");
            }
            if text.contains('[') && text.contains(['$', '`']) {
                return Err("a subscript is evaluated");
            }
            if evaluates {
                let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let names = text.split(|c| !is_name_char(c)).filter(|name| is_name(name));
                self.arithmetic_names.extend(names.map(str::to_owned));
            } else if let Some((name, value)) = split_known_assignment(word) {
                self.note_assignment(&name, &value)?;
            } else if is_name(&text) && !matches!(name, "test" | "[" | "[[" | "unset" | "export") {
                self.text_names.push(text);
            }
        }
        Ok(())
    }
}

/// The redirections that feed a command's standard input.
struct Input<'a> {
    command: &'a SimpleCommand,
    script: &'a Script,
}

impl Input<'_> {
    /// The text of its only here-document or here-string, if it is known.
    fn known_text(&self) -> Option<String> {
        let mut redirects = self.command.redirects.iter();
        let redirect = redirects.next().filter(|_| redirects.next().is_none())?;
        match redirect.kind {
            RedirectKind::Here(index) => self.script.here_documents.get(index)?.clone(),
            RedirectKind::HereString => redirect.target.plain_text(),
            RedirectKind::Read | RedirectKind::Write | RedirectKind::Duplicate => None,
        }
    }
}

/// Splits `NAME=value`, also where a part is quoted: `env "A=b" …`.
fn split_known_assignment(word: &Word) -> Option<(String, Word)> {
    if let Some((name, value)) = split_assignment(word) {
        return Some((name, value));
    }
    let start: String = word
        .pieces
        .iter()
        .map_while(|piece| match piece {
            Piece::Text { text, .. } => Some(&**text),
            Piece::Hole { .. } => None,
        })
        .collect();
    let (name, value) = start.split_once('=')?;
    let value = if word.has_hole() { Word::hole(true) } else { Word::known(value) };
    (!name.is_empty() && !name.starts_with('-')).then(|| (name.to_owned(), value))
}

fn is_known_option(text: &str, wrapper: &PrefixWrapper) -> bool {
    if let Some((name, _)) = text.split_once('=').filter(|_| text.starts_with("--")) {
        return wrapper.valued.contains(&name) || wrapper.flags.contains(&name);
    }
    if wrapper.flags.contains(&text) {
        return true;
    }
    if text.starts_with("--") || !text.is_ascii() {
        return false;
    }
    // `-n10`: a value in the same argument; `-10`: a number; `-0r`: several flags.
    let glued = wrapper.valued.iter().any(|option| option.len() == 2 && text.starts_with(option));
    let number = text[1..].bytes().all(|byte| byte.is_ascii_digit());
    let cluster = text[1..]
        .chars()
        .all(|c| wrapper.flags.iter().any(|flag| flag.len() == 2 && flag.ends_with(c)));
    glued || number || cluster
}

/// Returns the words of `xargs` with holes in place of the arguments that it reads.
fn with_xargs_holes(words: &[Word]) -> Vec<Word> {
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

/// Whether a command sets or tests a variable whose name is not known: a subscript in it is
/// evaluated.
fn names_unknown_variable(name: &str, words: &[Word]) -> bool {
    let is_unknown = |word: &Word| word.has_hole() && split_assignment(word).is_none();
    let tests = words.iter().any(|word| word.plain_text().is_some_and(|t| t.starts_with("-v")));
    match name {
        "set" | "let" | "integer" | "float" => false,
        "printf" | "print" | "test" | "[" | "[[" => {
            let hides_option = words.first().is_some_and(is_unknown)
                && match name {
                    "test" => words.len() == 2,
                    "[" => words.len() == 3,
                    "[[" => false,
                    _ => words.len() > 2,
                };
            (tests && words.iter().any(is_unknown)) || hides_option
        }
        _ => words.iter().any(is_unknown),
    }
}
