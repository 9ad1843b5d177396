//! The ways in which a command runs another; `wrapper_table.rs` has the commands.

use super::wrapper_table::TABLE;

/// Names or options with blanks between them.
pub(super) type Names = &'static str;

pub(super) fn is_among(names: Names, name: &str) -> bool {
    names.split_ascii_whitespace().any(|one| one == name)
}

/// The way in which a command names the command that it runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrapper {
    /// After its options and operands.
    Prefix(PrefixWrapper),
    /// Like a prefix, and more arguments come from its input.
    Xargs(PrefixWrapper),
    /// Like a prefix, after one of its subcommands; the others run nothing that is known.
    Subcommands(Subcommands),
    /// After `-exec` and its like.
    Find,
    /// A script, in an option, in a file or from its input.
    Shell,
    /// `trap`: its first operand is a script.
    Trap,
    /// Every argument may be the start of a command, or a script.
    AnyArgument,
    /// It runs text that cannot be known here.
    Opaque,
    /// It sets variables that its arguments name.
    SetsVariables,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Subcommands {
    /// Options before the subcommand whose value is the next argument.
    pub(super) valued: Names,
    pub(super) all: &'static [Subcommand],
}

/// A subcommand such as `bisect run`: words that stand in this order, with options between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subcommand {
    pub(super) path: Names,
    pub(super) wrapper: PrefixWrapper,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PrefixWrapper {
    /// Options without a value.
    pub(super) flags: Names,
    /// Options with a value, in the next argument or in the same one.
    pub(super) valued: Names,
    /// Options whose value is a script.
    pub(super) scripts: Names,
    /// Options whose value is cut into arguments: `env -S`.
    pub(super) splits: Names,
    /// Options with which it runs nothing.
    pub(super) idle: Names,
    /// An option that is not listed is refused. Otherwise every argument after it may be the start
    /// of a command.
    pub(super) is_strict: bool,
    /// Arguments before the command.
    pub(super) operands: usize,
    /// `NAME=value` may stand before the command.
    pub(super) assignments: bool,
    pub(super) body: Body,
    pub(super) shell: InputShell,
}

/// What follows the options and operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A program and its arguments.
    Words,
    /// Words that a shell reads as one script.
    Script,
    /// Like a script, with places for arguments that are read: `parallel`.
    Template,
}

/// Whether a command without a command to run starts a shell, which reads its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputShell {
    Never,
    /// Once its operands are there: `ssh host`.
    AfterOperands,
    /// Also without operands: `su`.
    Always,
}

/// What an argument before the command is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ArgumentForm<'a> {
    Operand,
    Flag,
    /// The value is the next argument.
    ValueFollows,
    /// The value is a script: this text, or the next argument.
    Script(Option<&'a str>),
    Split(Option<&'a str>),
    Idle,
    Unknown,
}

pub(super) const PLAIN: PrefixWrapper = PrefixWrapper {
    flags: "",
    valued: "",
    scripts: "",
    splits: "",
    idle: "",
    is_strict: false,
    operands: 0,
    assignments: false,
    body: Body::Words,
    shell: InputShell::Never,
};

impl PrefixWrapper {
    pub(super) fn form<'a>(&self, text: &'a str) -> ArgumentForm<'a> {
        if !text.starts_with('-') || text == "-" && !is_among(self.flags, text) {
            return ArgumentForm::Operand;
        }
        if let Some(form) = self.whole_form(text) {
            return form;
        }
        if text.starts_with("--") {
            let Some((name, value)) = text.split_once('=') else {
                return ArgumentForm::Unknown;
            };
            return match self.whole_form(name) {
                Some(ArgumentForm::Script(_)) => ArgumentForm::Script(Some(value)),
                Some(ArgumentForm::Split(_)) => ArgumentForm::Split(Some(value)),
                Some(_) => ArgumentForm::Flag,
                None => ArgumentForm::Unknown,
            };
        }
        // `-10`: a number; `-0r`: several flags; `-n10`, `-rn 10`: a value after a letter.
        if text[1..].bytes().all(|byte| byte.is_ascii_digit()) {
            return ArgumentForm::Flag;
        }
        let mut is_idle = false;
        for (at, letter) in text.char_indices().skip(1) {
            let rest = &text[at + letter.len_utf8()..];
            let glued = Some(rest).filter(|rest| !rest.is_empty());
            match self.whole_form(&format!("-{letter}")) {
                Some(ArgumentForm::Flag) => {}
                Some(ArgumentForm::Idle) => is_idle = true,
                Some(ArgumentForm::ValueFollows) if glued.is_some() => break,
                Some(ArgumentForm::ValueFollows) => return ArgumentForm::ValueFollows,
                Some(ArgumentForm::Script(_)) => return ArgumentForm::Script(glued),
                Some(ArgumentForm::Split(_)) => return ArgumentForm::Split(glued),
                Some(ArgumentForm::Operand | ArgumentForm::Unknown) | None => {
                    return ArgumentForm::Unknown;
                }
            }
        }
        if is_idle { ArgumentForm::Idle } else { ArgumentForm::Flag }
    }

    /// The form of an option without a value in the same argument.
    fn whole_form(&self, option: &str) -> Option<ArgumentForm<'static>> {
        let forms = [
            (self.idle, ArgumentForm::Idle),
            (self.flags, ArgumentForm::Flag),
            (self.valued, ArgumentForm::ValueFollows),
            (self.scripts, ArgumentForm::Script(None)),
            (self.splits, ArgumentForm::Split(None)),
        ];
        forms.into_iter().find(|(options, _)| is_among(options, option)).map(|(_, form)| form)
    }
}

/// The name as a file system compares it that does not tell upper from lower case.
pub(crate) fn folded(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Looks a command up by its name without the folder.
pub(super) fn find_wrapper(name: &str) -> Option<Wrapper> {
    let find = |name: &str| {
        TABLE.iter().find(|(names, _)| is_among(names, name)).map(|(_, wrapper)| *wrapper)
    };
    let other_case = folded(name);
    if other_case.starts_with("ld-linux") || other_case.starts_with("ld-musl") {
        return Some(Wrapper::AnyArgument);
    }
    // `zsh-5.9` is a shell too. A single letter is a program of its own: `R` is not `r`.
    let version = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    let without_version = other_case.trim_end_matches(version);
    find(name).or_else(|| {
        let others = [&*other_case, without_version].into_iter();
        others.filter(|name| name.len() > 1).find_map(find)
    })
}
