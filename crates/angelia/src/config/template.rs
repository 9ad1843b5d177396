//! The file that `config init` writes: every key with its default and its description, commented
//! out, so that a default that changes in a later version still takes effect.

use super::{
    hermes::BRIDGE_KEY,
    node::Node,
    setting::{SettingDoc, SettingsBlock as _},
    show::{format_flow, to_tree},
    types::{BusSettings, ConfigFile, Http, Profile, Sessions},
};

const HEADER: &str = "\
# Angelia's settings. Every key is here with its default, commented out: take the `#` before a
# key away to change it. An empty file is valid. `angelia config check` says what is wrong,
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
            "profiles" => {
                text.push('\n');
                write_comment(&field.about, 0, &mut text);
                text.push_str("profiles:\n  default:\n");
                let defaults = to_tree(&Profile::default());
                write_commented_out(&Profile::fields(), &defaults, 2, &mut text);
            }
            "executors" => {
                text.push('\n');
                write_comment(&field.about, 0, &mut text);
                text.push_str("executors:\n  #claude: {}\n  #codex: {}\n  #acp: {}\n");
            }
            "sessions" => {
                text.push('\n');
                write_comment(&field.about, 0, &mut text);
                text.push_str("sessions:\n");
                let defaults = to_tree(&Sessions::default());
                write_commented_out(&Sessions::fields(), &defaults, 1, &mut text);
            }
            "http" => {
                text.push('\n');
                write_comment(&field.about, 0, &mut text);
                text.push_str("http:\n");
                let defaults = to_tree(&Http::default());
                write_commented_out(&Http::fields(), &defaults, 1, &mut text);
            }
            "bus" => {
                text.push('\n');
                write_comment(&field.about, 0, &mut text);
                text.push_str("bus:\n");
                let defaults = to_tree(&BusSettings::default());
                write_commented_out(&BusSettings::fields(), &defaults, 1, &mut text);
            }
            _ => {
                text.push('\n');
                write_commented_out(&[field], &defaults, 0, &mut text);
            }
        }
    }
    text
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
