//! `angelia env`: prints shell lines that point a client at this home's daemon. They read the token
//! file when the shell runs them, so the token itself is never printed.

use std::{ffi::OsStr, path::Path};

use clap::{Args, ValueEnum};

use super::{
    error::{CommandError, Exit},
    print,
};
use crate::{
    config::{Config, Environment, Home},
    daemon_process::ClientAddress,
};

#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// The program that reads the variables; by default the two pairs that SDKs read.
    pub(crate) tool: Option<EnvTool>,

    /// The shell that runs the lines; taken from `$SHELL` by default.
    #[arg(long)]
    pub(crate) shell: Option<EnvShell>,
}

/// Programs that read an address and a key from variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnvTool {
    /// Claude Code.
    Claude,
    /// Anthropic's SDKs.
    Anthropic,
    /// OpenAI's SDKs.
    Openai,
    /// Aider.
    Aider,
    #[value(help = "Open WebUI")]
    OpenWebui,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnvShell {
    /// Bash, zsh and every other shell with `export`.
    Sh,
    Fish,
}

/// A line for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EnvLine {
    Text(&'static str, String),
    Token(&'static str),
    /// Removes a variable that would take precedence over the others.
    Unset(&'static str),
}

pub(crate) fn run(
    args: &EnvArgs,
    environment: &Environment,
    file: Option<&Path>,
) -> Result<Exit, CommandError> {
    let home = Home::from_environment(environment)?;
    let config = Config::load(environment, &home, file, &[])?;
    let address = find_address(&home, &config)?;
    let token_file = home.token_file();
    let token_file = token_file.to_str().ok_or_else(|| {
        let message = format!("{} is not UTF-8, so it cannot be printed", token_file.display());
        CommandError::new(Exit::Config, message).with_hint("set ANGELIA_HOME to another path")
    })?;
    let shell = args.shell.unwrap_or_else(|| EnvShell::of(environment.get("SHELL")));
    print::bytes(render(&lines(args.tool, &address.url()), shell, token_file).as_bytes())
}

/// Returns the address for clients of this home, and prints a note if nothing listens there.
pub(super) fn find_address(home: &Home, config: &Config) -> Result<ClientAddress, CommandError> {
    let address = ClientAddress::find(home, config.listen()).ok_or_else(|| {
        let message = "the daemon chooses its port when it starts, and it does not run";
        CommandError::new(Exit::Unavailable, message)
            .with_hint("run `angelia start`, or set `listen` to an address with a port")
    })?;
    if !address.is_running {
        print::note("angelia: the daemon does not run yet; `angelia start` starts it");
    }
    Ok(address)
}

fn lines(tool: Option<EnvTool>, url: &str) -> Vec<EnvLine> {
    let root = |name| EnvLine::Text(name, url.to_owned());
    let v1 = |name| EnvLine::Text(name, format!("{url}/v1"));
    let anthropic = [root("ANTHROPIC_BASE_URL"), EnvLine::Token("ANTHROPIC_API_KEY")];
    let openai = [v1("OPENAI_BASE_URL"), EnvLine::Token("OPENAI_API_KEY")];
    match tool {
        None => anthropic.into_iter().chain(openai).collect(),
        Some(EnvTool::Anthropic) => anthropic.into(),
        Some(EnvTool::Openai) => openai.into(),
        Some(EnvTool::Claude) => vec![
            root("ANTHROPIC_BASE_URL"),
            EnvLine::Token("ANTHROPIC_AUTH_TOKEN"),
            EnvLine::Unset("ANTHROPIC_API_KEY"),
        ],
        Some(EnvTool::Aider) => vec![
            v1("OPENAI_API_BASE"),
            EnvLine::Token("OPENAI_API_KEY"),
            EnvLine::Text("AIDER_MODEL", "openai/claude/sonnet".to_owned()),
        ],
        Some(EnvTool::OpenWebui) => vec![
            v1("OPENAI_API_BASE_URL"),
            EnvLine::Token("OPENAI_API_KEY"),
            EnvLine::Text("ENABLE_FORWARD_USER_INFO_HEADERS", "true".to_owned()),
        ],
    }
}

impl EnvShell {
    fn of(shell: Option<&OsStr>) -> Self {
        let name = shell.and_then(|path| Path::new(path).file_name());
        if name.is_some_and(|name| name == "fish") { Self::Fish } else { Self::Sh }
    }

    /// Quotes a text so that the shell takes it literally.
    fn quote(self, text: &str) -> String {
        match self {
            Self::Sh => format!("'{}'", text.replace('\'', r"'\''")),
            Self::Fish => format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'")),
        }
    }
}

fn render(lines: &[EnvLine], shell: EnvShell, token_file: &str) -> String {
    let token_file = shell.quote(token_file);
    let line = |line: &EnvLine| match (shell, line) {
        (EnvShell::Sh, EnvLine::Text(name, text)) => {
            format!("export {name}={}\n", shell.quote(text))
        }
        (EnvShell::Sh, EnvLine::Token(name)) => {
            format!("export {name}=\"$(cat {token_file})\"\n")
        }
        (EnvShell::Sh, EnvLine::Unset(name)) => format!("unset {name}\n"),
        (EnvShell::Fish, EnvLine::Text(name, text)) => {
            format!("set -gx {name} {}\n", shell.quote(text))
        }
        (EnvShell::Fish, EnvLine::Token(name)) => {
            format!("set -gx {name} (cat {token_file})\n")
        }
        (EnvShell::Fish, EnvLine::Unset(name)) => format!("set -e {name}\n"),
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const URL: &str = "http://127.0.0.1:4376";

    #[test]
    fn each_tool_gets_the_names_it_reads() {
        let tools = [None].into_iter().chain(EnvTool::value_variants().iter().map(|it| Some(*it)));
        let all: Vec<String> = tools
            .map(|tool| {
                let lines = render(&lines(tool, URL), EnvShell::Sh, "/home/o'neill/.angelia/token");
                format!("{tool:?}\n{lines}\n")
            })
            .collect();
        insta::assert_snapshot!(all.concat());
        let fish =
            render(&lines(Some(EnvTool::Claude), URL), EnvShell::Fish, r"/h/o'neill\x/token");
        insta::assert_snapshot!(fish, @r"
        set -gx ANTHROPIC_BASE_URL 'http://127.0.0.1:4376'
        set -gx ANTHROPIC_AUTH_TOKEN (cat '/h/o\'neill\\x/token')
        set -e ANTHROPIC_API_KEY
        ");
    }

    #[test]
    fn the_shell_is_taken_from_the_variable() {
        assert_eq!(EnvShell::of(Some(OsStr::new("/usr/bin/fish"))), EnvShell::Fish);
        assert_eq!(EnvShell::of(Some(OsStr::new("/bin/zsh"))), EnvShell::Sh);
        assert_eq!(EnvShell::of(None), EnvShell::Sh);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        /// A real shell returns every path unchanged, whichever characters it contains.
        #[test]
        #[expect(clippy::disallowed_methods, reason = "the shell is what the lines are for")]
        fn a_shell_reads_what_was_meant(text in "[^\0\n\r]{0,20}") {
            let script = format!("printf %s {}", EnvShell::Sh.quote(&text));
            let ran = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            prop_assert_eq!(String::from_utf8(ran.stdout).unwrap(), text);
        }
    }
}
