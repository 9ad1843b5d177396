//! Variables that a command sets, and the tables of those whose value is run.

use super::{
    Unparsed, Word,
    assignment::{is_name, split_assignment, split_known_assignment},
    invocations::Invocations,
    wrappers::{Names, is_among},
};

/// Variables whose values the shell runs or uses to find what to run, or settings that name
/// commands.
const EVALUATED: Names = "PS0 PS1 PS2 PS4 PROMPT_COMMAND BASH_ENV ENV BASH_ALIASES BASH_CMDS \
    SHELLOPTS BASHOPTS aliases galiases saliases functions commands dis_aliases dis_functions \
    ZDOTDIR FPATH fpath precmd_functions chpwd_functions preexec_functions GIT_CONFIG_COUNT \
    GIT_CONFIG_PARAMETERS PARALLEL .SHELLFLAGS";
const EVALUATED_STARTS: [&str; 3] = ["BASH_FUNC_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"];

/// Variables whose value programs run as a command.
const COMMANDS: Names = "PAGER MANPAGER SYSTEMD_PAGER BAT_PAGER DELTA_PAGER PSQL_PAGER AWS_PAGER \
    GH_PAGER GLAB_PAGER GIT_PAGER EDITOR VISUAL FCEDIT SYSTEMD_EDITOR KUBE_EDITOR PSQL_EDITOR \
    GH_EDITOR SVN_EDITOR HGEDITOR CVSEDITOR GIT_EDITOR GIT_SEQUENCE_EDITOR BROWSER GH_BROWSER \
    GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND SSH_ASKPASS \
    SUDO_ASKPASS RSYNC_RSH RSYNC_CONNECT_PROG CVS_RSH SVN_SSH BORG_RSH BORG_PASSCOMMAND \
    RESTIC_PASSWORD_COMMAND LESSOPEN LESSCLOSE RUSTC RUSTDOC RUSTC_WRAPPER \
    RUSTC_WORKSPACE_WRAPPER CC CXX LD AR MAKE FZF_DEFAULT_COMMAND DOCKER_SSH_COMMAND";

/// Variables that name a shell; what it runs is told elsewhere.
const SHELLS: Names = "SHELL npm_config_script_shell";

/// Variables with more options for a program.
const OPTIONS: [(&str, &str); 6] = [
    ("LESS", "less"),
    ("MORE", "more"),
    ("MANOPT", "man"),
    ("TAR_OPTIONS", "tar"),
    ("MAKEFLAGS", "make"),
    ("FZF_DEFAULT_OPTS", "fzf"),
];

/// Whether what runs depends on the value of the variable.
fn is_run(name: &str) -> bool {
    is_among(EVALUATED, name)
        || EVALUATED_STARTS.iter().any(|start| name.starts_with(start))
        || is_among(COMMANDS, name)
        || is_among(SHELLS, name)
        || OPTIONS.iter().any(|(variable, _)| *variable == name)
}

impl Invocations {
    pub(super) fn note_assignment(
        &mut self,
        name: &str,
        value: &Word,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        if !value.is_numeric() {
            self.text_names.push(name.to_owned());
        }
        if is_run(name) { self.follow_variable(name, value, nesting) } else { Ok(()) }
    }

    /// Notes that a variable gets a value that is not known.
    pub(super) fn note_unknown_value(&mut self, name: &str) -> Result<(), Unparsed> {
        self.text_names.push(name.to_owned());
        if is_run(name) { Err("it sets a variable whose value is run") } else { Ok(()) }
    }

    fn follow_variable(
        &mut self,
        name: &str,
        value: &Word,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        const WHY: &str = "it sets a variable whose value is run";
        let text = value.plain_text().ok_or(WHY)?;
        if is_among(COMMANDS, name) {
            return self.add_command_text(&text, nesting);
        }
        if is_among(SHELLS, name) {
            return self.add_named_shell(&text, nesting);
        }
        let program = OPTIONS.iter().find(|(variable, _)| *variable == name);
        let (_, program) = program.ok_or(WHY)?;
        self.add_script(&format!("{program} {text}"), nesting + 1)
    }

    /// Notes the variables that a command sets, and refuses values that it would evaluate.
    pub(super) fn note_variables(
        &mut self,
        name: &str,
        words: &[Word],
        nesting: usize,
    ) -> Result<(), Unparsed> {
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
                    self.note_assignment(&name, &value, nesting)?;
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
                self.note_assignment(&name, &value, nesting)?;
            } else if is_name(&text) && !matches!(name, "test" | "[" | "[[" | "unset" | "export") {
                self.note_unknown_value(&text)?;
            }
        }
        Ok(())
    }
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
