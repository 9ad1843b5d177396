//! Codex: a model provider in its `config.toml`, a profile that uses it, and the provider's key in
//! a file of ours. Changes no defaults.

use angelia_executors::codex::user_config::{
    ConfigSyntaxError, PartState,
    provider::{PROFILE_FILE, ProviderSettings, profile_lines, with_provider, without_provider},
};

use super::{
    client::{Client, ClientFile, Connection, EditRefusal, FileState, Removal},
    own_file::{mark_line, with_file, without_file},
};
use crate::cli::{codex::find_codex_home, keys::keys_file::KEY_PREFIX};

const NAME: &str = "codex";
const PROFILE_MARK: &str = "# angelia setup codex";

pub(super) const CLIENT: Client = Client {
    name: NAME,
    has_key: true,
    files: |folders| {
        let codex_home = find_codex_home(folders.environment)?;
        Ok(vec![
            ClientFile {
                path: folders.clients.join(KEY_FILE),
                holds_key: true,
                with: |file, connection| {
                    with_file(file, KEY_PREFIX, format!("{}\n", connection.key))
                },
                without: |text| Ok(without_file(text, KEY_PREFIX)),
            },
            ClientFile {
                path: codex_home.dir.join(PROFILE_FILE),
                holds_key: false,
                with: |file, connection| with_file(file, PROFILE_MARK, profile(connection)),
                without: |text| Ok(without_file(text, PROFILE_MARK)),
            },
            ClientFile {
                path: codex_home.config_path(),
                holds_key: false,
                with: add_provider,
                without: |text| {
                    let text = without_provider(text).map_err(|error| unreadable(&error))?;
                    Ok(Removal { text, mode: None })
                },
            },
        ])
    },
    usage: |_| "codex --profile angelia".to_owned(),
};

/// The file with the key, in the folder for clients.
pub(super) const KEY_FILE: &str = "codex.key";

fn profile(connection: &Connection) -> String {
    let lines = profile_lines(&connection.model);
    format!("# {}\n{}\n", mark_line(NAME), lines.join("\n"))
}

fn add_provider(file: &FileState<'_>, connection: &Connection) -> Result<String, EditRefusal> {
    let base_url = connection.v1_url();
    let provider = ProviderSettings { base_url: &base_url, key_file: &connection.key_file };
    let edit = with_provider(file.text, &provider).map_err(|error| unreadable(&error))?;
    for part in edit.parts {
        match part.state {
            PartState::Written => {}
            PartState::Kept(why) => return Err(EditRefusal::Own(why)),
            PartState::Failed(why) => return Err(EditRefusal::Unreadable(why)),
        }
    }
    Ok(edit.text)
}

fn unreadable(error: &ConfigSyntaxError) -> EditRefusal {
    EditRefusal::Unreadable(error.to_string())
}
