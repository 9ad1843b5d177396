//! Tests that every command of the command line has a class, and that it is the expected one.

use std::collections::BTreeMap;

use clap::{CommandFactory as _, Parser as _};

use super::*;
use crate::cli::args::Cli;

/// Every command, with arguments that it needs, and its class. A new command is missing here.
const CLASSES: [(&str, &str, AgentUse); 96] = [
    ("run", "", AgentUse::ThroughDaemon),
    ("chat", "", AgentUse::ThroughDaemon),
    ("serve", "", AgentUse::StartsDaemon),
    ("start", "", AgentUse::StartsDaemon),
    ("stop", "", AgentUse::Refused),
    ("restart", "", AgentUse::Refused),
    ("logs", "", AgentUse::Refused),
    ("service install", "", AgentUse::Refused),
    ("service uninstall", "", AgentUse::Refused),
    ("service status", "", AgentUse::Refused),
    ("acp", "", AgentUse::AsAgent),
    ("bridge", "", AgentUse::ThroughDaemon),
    ("sessions list", "", AgentUse::ThroughDaemon),
    ("sessions show", "ID", AgentUse::ThroughDaemon),
    ("sessions search", "WORD", AgentUse::Refused),
    ("sessions resume", "ID", AgentUse::ThroughDaemon),
    ("sessions adopt", "claude", AgentUse::Refused),
    ("sessions fork", "ID", AgentUse::ThroughDaemon),
    ("sessions export", "ID", AgentUse::Refused),
    ("sessions delete", "ID", AgentUse::ThroughDaemon),
    ("turns list", "", AgentUse::ThroughDaemon),
    ("turns show", "ID", AgentUse::ThroughDaemon),
    ("turns watch", "ID", AgentUse::ThroughDaemon),
    ("turns interrupt", "ID", AgentUse::ThroughDaemon),
    ("approvals list", "", AgentUse::ThroughDaemon),
    ("approvals show", "ID", AgentUse::ThroughDaemon),
    ("approvals approve", "ID", AgentUse::ThroughDaemon),
    ("approvals deny", "ID", AgentUse::ThroughDaemon),
    ("approvals rules list", "", AgentUse::Refused),
    ("approvals rules remove", "ID", AgentUse::Refused),
    ("schedule add", "--every 1h PROMPT", AgentUse::Refused),
    ("schedule list", "", AgentUse::Refused),
    ("schedule show", "ID", AgentUse::Refused),
    ("schedule pause", "ID", AgentUse::Refused),
    ("schedule resume", "ID", AgentUse::Refused),
    ("schedule remove", "ID", AgentUse::Refused),
    ("channels list", "", AgentUse::Refused),
    ("channels add", "telegram", AgentUse::Refused),
    ("channels check", "", AgentUse::Refused),
    ("channels remove", "telegram", AgentUse::Refused),
    ("access list", "", AgentUse::Refused),
    ("access approve", "CODE", AgentUse::Refused),
    ("access revoke", "telegram:1", AgentUse::Refused),
    ("status", "", AgentUse::Refused),
    ("usage", "", AgentUse::Refused),
    ("dashboard", "", AgentUse::Refused),
    ("audit", "", AgentUse::Refused),
    ("bus start", "", AgentUse::StartsDaemon),
    ("bus stop", "", AgentUse::Refused),
    ("bus restart", "", AgentUse::Refused),
    ("bus status", "", AgentUse::Free),
    ("bus run", "", AgentUse::StartsDaemon),
    ("bus listen", "NAME", AgentUse::Free),
    ("bus send", "--to NAME text", AgentUse::Free),
    ("bus dead list", "", AgentUse::Refused),
    ("bus dead resend", "1", AgentUse::Refused),
    ("bus dead discard", "1", AgentUse::Refused),
    ("notify", "--to NAME text", AgentUse::Free),
    ("codex status", "", AgentUse::Free),
    ("codex enable", "", AgentUse::Refused),
    ("codex disable", "", AgentUse::Refused),
    ("mcp", "", AgentUse::Free),
    ("mcp login", "web", AgentUse::Refused),
    ("mcp logout", "web", AgentUse::Refused),
    ("keys add", "NAME", AgentUse::Refused),
    ("keys list", "", AgentUse::Refused),
    ("keys revoke", "NAME", AgentUse::Refused),
    ("doctor", "", AgentUse::Free),
    ("providers list", "", AgentUse::Free),
    ("providers check", "", AgentUse::Refused),
    ("providers login", "NAME", AgentUse::Refused),
    ("providers logout", "NAME", AgentUse::Refused),
    ("agents list", "", AgentUse::Free),
    ("agents install", "claude", AgentUse::Refused),
    ("agents remove", "claude@2.1.197", AgentUse::Refused),
    ("memory list", "", AgentUse::Refused),
    ("memory show", "KEY", AgentUse::Refused),
    ("memory edit", "KEY", AgentUse::Refused),
    ("memory forget", "KEY", AgentUse::Refused),
    ("memory undo", "", AgentUse::Refused),
    ("selftest", "", AgentUse::Refused),
    ("config", "show", AgentUse::Refused),
    ("completions", "bash", AgentUse::Free),
    ("env", "", AgentUse::Free),
    ("setup claude", "--write", AgentUse::Refused),
    ("setup codex", "--write", AgentUse::Refused),
    ("setup aider", "--write", AgentUse::Refused),
    ("setup llm", "--write", AgentUse::Refused),
    ("setup open-webui", "--write", AgentUse::Refused),
    ("setup zed", "--write", AgentUse::Refused),
    ("setup neovim", "--write", AgentUse::Refused),
    ("setup jetbrains", "--write", AgentUse::Refused),
    ("setup ollama", "--write", AgentUse::Refused),
    ("setup llamacpp", "--write", AgentUse::Refused),
    ("setup hermes", "--write", AgentUse::Refused),
    ("package-files", "DIR", AgentUse::Free),
];

fn leaves(command: &clap::Command, path: &str, found: &mut Vec<String>) {
    let mut below = command.get_subcommands().peekable();
    // Every command of `config` has the same class.
    if below.peek().is_none() || path == "config" {
        return found.push(path.to_owned());
    }
    // A command such as `mcp` can be used without one of those below it.
    if !path.is_empty() && !command.is_subcommand_required_set() {
        found.push(path.to_owned());
    }
    for command in below {
        let path = format!("{path} {}", command.get_name());
        leaves(command, path.trim_start(), found);
    }
}

#[test]
fn every_command_is_classified() {
    let mut all = Vec::new();
    leaves(&Cli::command(), "", &mut all);
    let known: BTreeMap<&str, _> =
        CLASSES.iter().map(|(path, arguments, class)| (*path, (*arguments, *class))).collect();
    for path in &all {
        let (arguments, class) =
            known.get(path.as_str()).unwrap_or_else(|| panic!("`{path}` has no class"));
        let words = format!("angelia {path} {arguments}");
        let cli = Cli::try_parse_from(words.split_ascii_whitespace()).unwrap();
        assert_eq!(agent_use(&cli.command), *class, "{path}");
    }
    assert_eq!(all.len(), known.len(), "{all:?}");
}

#[test]
fn an_agent_may_look_at_what_setup_would_do_but_not_do_it() {
    for tool in ["hermes", "aider", "zed", "ollama"] {
        for (flag, class) in
            [("", AgentUse::Free), ("--write", AgentUse::Refused), ("--undo", AgentUse::Refused)]
        {
            let words = format!("angelia setup {tool} {flag}");
            let cli = Cli::try_parse_from(words.split_ascii_whitespace()).unwrap();
            assert_eq!(agent_use(&cli.command), class, "{tool} {flag}");
        }
    }
}
