//! The file that `config init` writes: every key with its default and its description, commented
//! out, so that a default that changes in a later version still takes effect.

use serde::Serialize;

use super::{
    hermes::BRIDGE_KEY,
    node::Node,
    setting::{SettingDoc, SettingsBlock},
    show::{format_flow, to_tree},
    types::{BusSettings, ConfigFile, Http, LogSettings, Profile, Sessions},
};

const HEADER: &str = "\
# Angelia's settings. Every key is here with its default, commented out: remove the `#` before a
# key to change it. An empty file is valid. `angelia config check` says what is wrong,
# `angelia config show --origin` what is in force and why.
# Durations are seconds, or 90s, 10m, 2h, 7d.
";

const LINE_WIDTH: usize = 96;

pub(crate) fn initial_file() -> String {
    let mut text = HEADER.to_owned();
    let defaults = to_tree(&ConfigFile::default());
    for field in ConfigFile::fields() {
        match field.key {
            // Only people who come from Hermes need this block, and they already have it.
            BRIDGE_KEY => {}
            "profiles" => write_block::<Profile>(&field, "profiles:\n  default:\n", 2, &mut text),
            "executors" => {
                open_block(&field, "executors:\n", &mut text);
                text.push_str("  #claude: {}\n  #codex: {}\n  #acp: {}\n  #native: {}\n");
            }
            "sessions" => write_block::<Sessions>(&field, "sessions:\n", 1, &mut text),
            "log" => write_block::<LogSettings>(&field, "log:\n", 1, &mut text),
            "http" => write_block::<Http>(&field, "http:\n", 1, &mut text),
            "bus" => write_block::<BusSettings>(&field, "bus:\n", 1, &mut text),
            _ => {
                text.push('\n');
                write_commented_out(&[field], &defaults, 0, &mut text);
            }
        }
    }
    text
}

/// Writes a block whose keys are commented out.
fn write_block<B: SettingsBlock + Serialize>(
    field: &SettingDoc,
    head: &str,
    depth: usize,
    text: &mut String,
) {
    open_block(field, head, text);
    write_commented_out(&B::fields(), &to_tree(&B::default()), depth, text);
}

fn open_block(field: &SettingDoc, head: &str, text: &mut String) {
    text.push('\n');
    write_comment(&field.about, 0, text);
    text.push_str(head);
}

fn write_commented_out(fields: &[SettingDoc], defaults: &Node, depth: usize, text: &mut String) {
    for SettingDoc { key, about, expects } in fields {
        // For other types the default already shows the kind of value.
        let is_choice = expects.contains(" | ");
        let choice = if is_choice { format!(" ({expects})") } else { String::new() };
        write_comment(&format!("{about}{choice}"), depth, text);
        let default = defaults.get(key).map(format_flow).unwrap_or_default();
        *text += &"  ".repeat(depth);
        *text += &["#", key, ": ", &default, "\n"].concat();
    }
}

fn write_comment(about: &str, depth: usize, text: &mut String) {
    let start = format!("{}#", "  ".repeat(depth));
    let mut line = start.clone();
    for word in about.split_whitespace() {
        if line.len() + 1 + word.len() > LINE_WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.clone_from(&start);
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
