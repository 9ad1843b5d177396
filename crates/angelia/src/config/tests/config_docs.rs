//! Checks that `docs/configuration.md` and `schemas/config.schema.json` match the types, and
//! `docs/turn-states.md` the engine; writes them with `UPDATE_DOCS=1`.

mod examples;
mod turn_states;

use std::{fs, path::Path};

use self::examples::EXAMPLES;
use super::TestHome;
use crate::config::{
    hermes::{VARIABLE_PREFIX, VARIABLES},
    node::Node,
    reload_rules::{ReloadRule, keys_with},
    setting::{SettingDoc, SettingsBlock as _},
    show::{format_flow, to_tree},
    types::{
        BridgeProfile, BusSettings, ChannelFields, ChatFields, CompactionFields, ConfigFile,
        EntraFields, Fleet, Hermes, HookFields, Http, KeyFields, Limits, LogSettings, ModelFields,
        ModelPrice, OAuthFields, Profile, ProviderFields, QuirkSettings, Sessions,
    },
};

#[expect(
    clippy::disallowed_methods,
    reason = "asks whether the files are to be written; no part of the program"
)]
fn update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

fn is_current(path: &str, text: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(path);
    if update() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "{} is not current: run `UPDATE_DOCS=1 cargo test -p angelia config_docs`",
        path.display(),
    );
}

#[test]
fn the_reference_is_current() {
    is_current("docs/configuration.md", &document());
}

#[test]
fn every_block_has_a_section_and_every_section_an_example_that_works() {
    let text = document();
    for field in ConfigFile::fields() {
        let has_section = text.contains(&format!("\n## `{}`\n", field.key));
        let has_line = text.contains(&format!("\n- **`{}`** — ", field.key));
        assert!(has_section || has_line, "`{}` is missing", field.key);
    }
    let sections = text.lines().filter_map(|line| line.strip_prefix("## "));
    for section in sections.filter(|title| *title != CHANGES_TITLE) {
        let example = EXAMPLES.iter().find(|(title, _)| *title == section);
        let (_, example) = example.unwrap_or_else(|| panic!("{section} has no example"));
        TestHome::with_file(example).load().unwrap_or_else(|error| panic!("{section}: {error}"));
    }
}

#[test]
fn the_schema_is_current() {
    is_current("schemas/config.schema.json", &crate::config::schema());
}

const HEAD: &str = "\
# Configuration

<!-- Generated from the types in crates/angelia/src/config/types. Do not edit: run
     `UPDATE_DOCS=1 cargo test -p angelia config_docs`. -->

Angelia reads `config.yaml` in its home folder (`$ANGELIA_HOME`, else `~/.angelia`), or the file
named by `--config`. An empty file is valid, and so is none. `angelia config init` writes one with
every key and its default; `angelia config check` lists its errors; `angelia config show --origin`
prints the settings in force and the origin of each value: a default, a line of the file, a variable
or a flag. A later one of these four wins over an earlier one.

Unknown keys are errors that name the line and the nearest known key. Durations are seconds, or
`90s`, `10m`, `2h`, `7d`. Paths are absolute or start with `~/`.
";

const PROFILES: &str = "\
Any number, by name: letters, digits, `_`, `-` and `.`. The profile `default` always exists and is
used when none is named.

The clocks (`timeout` to `approval_timeout`) end a turn that hangs, the budgets (`budget_seconds` to
`max_cost_usd`) one that has done enough: [turn states](turn-states.md) says which one runs when, and
what happens when it rings. None of them can be 0. A clock cannot be switched off, but it can be long; a
budget of `null` is none.
";

const PROVIDERS: &str = "\
The providers of models for `executor: native`, by name; a profile uses one by `model: PROVIDER/MODEL`. Built in,
and in need of a key at most: `anthropic`, `openai`, `openrouter`, `deepseek`, `xai`, `gemini`, `azure` (with a
`base_url` of your own), `ollama`, `llamacpp`, `vllm` and `lmstudio`. A block with one of these names changes the keys
that it sets and keeps the rest. [Models without an agent](native.md) tells more; `angelia providers list` prints the result.
";

const EXECUTORS: &str = "\
`executors.claude`, `executors.codex`, `executors.acp` and `executors.native` take the keys of a profile except
`executor`. A profile that runs on that agent inherits them; its own keys win. `env` and `mcp_servers` are merged by name.
";

const HTTP: &str = "\
The model APIs: [HTTP](http.md) describes them, and how programs use them. A
running `angelia serve` follows changes of `keys` at once.
";

const BUS: &str = "\
The [message bus](bus.md). The rules for messages that arrive are in `bus-rules.yaml`.
";

const CHANNELS: &str = "\
Chat platforms, by name: [Chat](chat.md) describes them. Secrets are never in the file itself.
";

const HOOKS_IN: &str = "\
[Webhooks](webhooks.md) that begin turns, by the name in their path.
";

const FLEET: &str = "\
The record in a Postgres database: [A record on a server](fleet.md). One machine uses a database at a time.
";

const PRICES: &str = "\
Prices of models, by their ids, in US dollars per million tokens, for agents that report no cost (Codex
and `native`, there also by `PROVIDER/MODEL`). These prices override the built-in ones.
";

const MCP_SERVERS: &str = "\
MCP servers given to every agent, by name, in the shape Claude Code uses: `command` with `args` and
`env`, or `type` with `url` and `headers`. A profile can have further ones. Values of `env` and
`headers` are never printed. `oauth` has the keys of a provider's `oauth` key, of which only `client_id` is needed: `angelia mcp login`
logs in with it, for `executor: native` ([more](native.md#mcp-servers)).
";

const CHANGES_TITLE: &str = "Changes while the daemon runs";

const CHANGES: &str = "\
`angelia serve` follows its file: an edit counts for the next session, without a restart. Sessions
keep the settings they began with, and `angelia run -s` says when these are older. The daemon does not
follow a change that widens access by itself, because an agent can write the file, too. Such a setting
waits until you run `angelia config reload` in a terminal of your own, or restart the daemon; `angelia
doctor` names the settings that wait. A file that is broken, that is gone or that others can write changes
nothing: the last good one stays in force, and the log says why.
";

const LOG: &str = "\
The daemon writes its log to `logs/angelia.log` in the home; older files are `angelia.log.1` and so on.
`angelia logs` prints the end of it.
";

const BRIDGE: &str = "\
For people who come from Hermes: a `claude_code_bridge` block becomes the profile
`claude_code_bridge`, which runs on Claude Code. It takes every key of a profile and two of its own,
`enabled` and `resume_claude_sessions`; those below have Hermes's defaults. The keys of
`executors.claude` win over these defaults, the block over those, and the variables over the block; without a block
they count only while `HERMES_CLAUDE_CODE_BRIDGE=1`. A list in a variable is separated by commas.
";

/// The text of `docs/configuration.md`.
fn document() -> String {
    let file = ConfigFile::fields();
    let is_plain =
        |field: &SettingDoc| ["listen", "drain", "desktop_notifications"].contains(&field.key);
    let (plain, _): (Vec<_>, Vec<_>) = file.into_iter().partition(is_plain);
    let mut text = HEAD.to_owned();
    section(&mut text, CHANGES_TITLE, CHANGES);
    changes(&mut text);
    section(&mut text, "Top level", "");
    keys(&mut text, &plain, &to_tree(&ConfigFile::default()));
    section(&mut text, "`profiles`", PROFILES);
    keys(&mut text, &Profile::fields(), &to_tree(&Profile::default()));
    text.push_str("\n`compaction` has:\n");
    keys(&mut text, &CompactionFields::fields(), &to_tree(&CompactionFields::default()));
    section(&mut text, "`providers`", PROVIDERS);
    keys(&mut text, &ProviderFields::fields(), &to_tree(&ProviderFields::default()));
    text.push_str("\nA model in `models` has:\n");
    keys(&mut text, &ModelFields::fields(), &to_tree(&ModelFields::default()));
    text.push_str("\n`quirks` has:\n");
    keys(&mut text, &QuirkSettings::fields(), &to_tree(&QuirkSettings::default()));
    text.push_str("\n`entra` of a key has:\n");
    keys(&mut text, &EntraFields::fields(), &to_tree(&EntraFields::default()));
    text.push_str("\n`oauth` of a key has:\n");
    keys(&mut text, &OAuthFields::fields(), &to_tree(&OAuthFields::default()));
    section(&mut text, "`executors`", EXECUTORS);
    section(&mut text, "`sessions`", "");
    keys(&mut text, &Sessions::fields(), &to_tree(&Sessions::default()));
    section(&mut text, "`log`", LOG);
    keys(&mut text, &LogSettings::fields(), &to_tree(&LogSettings::default()));
    section(&mut text, "`http`", HTTP);
    keys(&mut text, &Http::fields(), &to_tree(&Http::default()));
    text.push_str("\nA key in `http.keys` has:\n");
    keys(&mut text, &KeyFields::fields(), &to_tree(&KeyFields::default()));
    section(&mut text, "`limits`", "");
    keys(&mut text, &Limits::fields(), &to_tree(&Limits::default()));
    section(&mut text, "`bus`", BUS);
    keys(&mut text, &BusSettings::fields(), &to_tree(&BusSettings::default()));
    section(&mut text, "`channels`", CHANNELS);
    keys(&mut text, &ChannelFields::fields(), &to_tree(&ChannelFields::default()));
    text.push_str("\nA chat in `chats` has:\n");
    keys(&mut text, &ChatFields::fields(), &to_tree(&ChatFields::default()));
    section(&mut text, "`hooks_in`", HOOKS_IN);
    keys(&mut text, &HookFields::fields(), &to_tree(&HookFields::default()));
    section(&mut text, "`fleet`", FLEET);
    keys(&mut text, &Fleet::fields(), &to_tree(&Fleet::default()));
    section(&mut text, "`prices`", PRICES);
    keys(&mut text, &ModelPrice::fields(), &to_tree(&ModelPrice::default()));
    section(&mut text, "`mcp_servers`", MCP_SERVERS);
    section(&mut text, "`claude_code_bridge`", BRIDGE);
    let defaults = to_tree(&BridgeProfile::default());
    let elsewhere = to_tree(&Profile::default());
    let differs = |field: &SettingDoc| {
        let of = |tree: &Node| tree.get(field.key).map(format_flow);
        of(&defaults) != of(&elsewhere)
    };
    let inherited = Profile::fields().into_iter().filter(differs);
    let own: Vec<SettingDoc> = Hermes::fields().into_iter().chain(inherited).collect();
    keys(&mut text, &own, &defaults);
    text.push_str("\n| variable | key |\n|---|---|\n");
    for (suffix, key) in VARIABLES {
        text += &["| `", VARIABLE_PREFIX, suffix, "` | `", key, "` |\n"].concat();
    }
    text
}

fn section(text: &mut String, title: &str, about: &str) {
    *text += &["\n## ", title, "\n"].concat();
    if !about.is_empty() {
        *text += &["\n", about].concat();
    }
    if let Some((_, example)) = EXAMPLES.iter().find(|(known, _)| *known == title) {
        *text += &["\n```yaml\n", example, "```\n"].concat();
    }
}

/// Lists the settings by the moment at which a change of them takes effect.
fn changes(text: &mut String) {
    let rows = [
        (ReloadRule::AtOnce, "at once"),
        (ReloadRule::IfNoWider, "at once where it allows no more than before, else confirmed"),
        (ReloadRule::Confirmed, "when you confirm it with `angelia config reload`"),
    ];
    text.push_str("\n| takes effect | settings |\n|---|---|\n");
    for (rule, when) in rows {
        let keys: Vec<String> = keys_with(rule).map(|key| format!("`{key}`")).collect();
        *text += &["| ", when, " | ", &keys.join(", "), " |\n"].concat();
    }
    text.push_str("| after a restart | `listen` and everything else |\n");
    text.push_str(
        "\nA new profile takes effect at once if one that exists allows as much on the same agent.\n",
    );
}

fn keys(text: &mut String, fields: &[SettingDoc], defaults: &Node) {
    text.push('\n');
    for field in fields {
        let default = defaults.get(field.key).map(format_flow).unwrap_or_default();
        let line = format!(
            "- **`{}`** — {} Default: `{default}`. Value: {}.\n",
            field.key, field.about, field.expects,
        );
        text.push_str(&line);
    }
}
