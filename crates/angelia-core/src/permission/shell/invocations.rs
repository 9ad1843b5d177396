//! Follows a script to the programs that it starts.

use super::{
    Redirect, Script, SimpleCommand, Unparsed, Word,
    assignment::{split_assignment, split_known_assignment},
    following::with_xargs_holes,
    languages::commands_in_programs,
    nested_shells::Input,
    options::option_commands,
    parse,
    parser::{is_keyword, starts_construct},
    wrappers::{Wrapper, find_wrapper, folded},
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
    pub(super) fn of_words(words: Vec<Word>) -> Option<Self> {
        let path = words.first()?.literal()?;
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let is_wrapper = !matches!(
            find_wrapper(&name),
            None | Some(Wrapper::Find | Wrapper::SetsVariables | Wrapper::Subcommands(_))
        );
        Some(Self { name, words, is_wrapper })
    }
}

/// All programs that a command line starts, as far as its text tells.
#[derive(Debug, Default)]
pub(crate) struct Invocations {
    pub(crate) all: Vec<Invocation>,
    pub(crate) redirects: Vec<Redirect>,
    pub(super) arithmetic_names: Vec<String>,
    pub(super) text_names: Vec<String>,
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
        found.add_argv(argv)?;
        found.finish()
    }

    /// Returns the invocations that are known of a script, even if its text does not tell all.
    pub(crate) fn known_of_script(text: &str) -> Self {
        let mut found = Self::default();
        let _incomplete = found.add_script(text, 0);
        found
    }

    /// Returns the invocations that are known of a program with its arguments.
    pub(crate) fn known_of_argv(argv: &[&str]) -> Self {
        let mut found = Self::default();
        let _incomplete = found.add_argv(argv);
        found
    }

    /// Adds what variables run that a command gets besides those in its text.
    pub(crate) fn with_environment<'a>(
        mut self,
        variables: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Unparsed> {
        for (name, value) in variables {
            self.note_assignment(name, &Word::known(value), 0)?;
        }
        self.finish()
    }

    fn add_argv(&mut self, argv: &[&str]) -> Result<(), Unparsed> {
        let words = argv.iter().map(|argument| Word::known(argument)).collect();
        let command = SimpleCommand { words, ..SimpleCommand::default() };
        self.add_command(&command, &Script::default(), 0)
    }

    fn finish(self) -> Result<Self, Unparsed> {
        let is_text = |name: &String| name == "1" || self.text_names.contains(name);
        if self.arithmetic_names.iter().any(is_text) {
            return Err("a variable that holds text is evaluated as arithmetic");
        }
        Ok(self)
    }

    pub(super) fn add_script(&mut self, text: &str, nesting: usize) -> Result<(), Unparsed> {
        if nesting > MAX_NESTING {
            return Err("it is nested too deeply");
        }
        let script = parse(text)?;
        self.arithmetic_names.extend_from_slice(&script.arithmetic_names);
        let mut result = Ok(());
        for name in &script.text_names {
            result = result.and(self.note_unknown_value(name));
        }
        // A command that cannot be followed does not hide the others.
        for command in &script.commands {
            result = result.and(self.add_command(command, &script, nesting));
        }
        result
    }

    fn add_command(
        &mut self,
        command: &SimpleCommand,
        script: &Script,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        self.redirects.extend_from_slice(&command.redirects);
        let mut result = Ok(());
        for assignment in &command.assignments {
            result = result.and(self.note_assignment(&assignment.name, &assignment.value, nesting));
        }
        result.and(self.add_words(&command.words, &Input { command, script }, nesting))
    }

    pub(super) fn add_words(
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
                self.note_assignment(&name, &value, nesting)?;
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
        let result = self.add_hidden(&name, &words[1..], nesting + 1);
        result.and(self.add_wrapped(&name, words, input, nesting + 1))
    }

    /// Follows a wrapper to what it runs.
    fn add_wrapped(
        &mut self,
        name: &str,
        words: &[Word],
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        match find_wrapper(name) {
            None => Ok(()),
            Some(Wrapper::Prefix(wrapper)) => {
                self.add_prefixed(&words[1..], &wrapper, input, nesting)
            }
            Some(Wrapper::Xargs(wrapper)) => {
                let words = with_xargs_holes(words);
                self.add_prefixed(&words[1..], &wrapper, input, nesting)
            }
            Some(Wrapper::Subcommands(subcommands)) => {
                self.add_subcommands(&words[1..], &subcommands, input, nesting)
            }
            Some(Wrapper::Find) => self.add_find(words, input, nesting),
            Some(Wrapper::Shell) => self.add_shell(words, input, nesting),
            Some(Wrapper::Trap) => self.add_trap(words, nesting),
            Some(Wrapper::AnyArgument) => self.add_any(&words[1..], input, nesting),
            Some(Wrapper::Opaque) => Err("it runs text as a command"),
            Some(Wrapper::SetsVariables) => self.note_variables(name, &words[1..], nesting),
        }
    }

    /// Follows options and programs in other languages that name a command.
    fn add_hidden(
        &mut self,
        name: &str,
        arguments: &[Word],
        nesting: usize,
    ) -> Result<(), Unparsed> {
        for found in option_commands(name, arguments)? {
            let text = found.command.literal().ok_or("an option that is run is not literal")?;
            if found.is_shell {
                self.add_named_shell(&text, nesting)?;
            } else {
                self.add_command_text(&text, nesting)?;
            }
        }
        for text in commands_in_programs(name, arguments)? {
            self.add_command_text(&text, nesting)?;
        }
        if folded(name).ends_with("make") {
            // `make SHELL=…`
            for (name, value) in arguments.iter().filter_map(split_known_assignment) {
                self.note_assignment(&name, &value, nesting)?;
            }
        }
        Ok(())
    }

    /// Follows a text that a program runs, without the signs before it that say how.
    pub(super) fn add_command_text(&mut self, text: &str, nesting: usize) -> Result<(), Unparsed> {
        let signs = |c: char| matches!(c, '!' | '|' | '-') || c.is_whitespace();
        self.add_script(text.trim_start_matches(signs), nesting + 1)
    }

    /// Follows the name of a shell, which gets its script from elsewhere.
    pub(super) fn add_named_shell(&mut self, text: &str, nesting: usize) -> Result<(), Unparsed> {
        let invocation = Invocation::of_words(vec![Word::known(text)]);
        match invocation.filter(|one| matches!(find_wrapper(&one.name), Some(Wrapper::Shell))) {
            Some(shell) => {
                self.all.push(shell);
                Ok(())
            }
            None => self.add_command_text(text, nesting),
        }
    }
}
