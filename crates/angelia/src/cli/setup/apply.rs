//! Shows, writes and undoes the connection of a client. The key is created before the files are
//! written, and revoked before they are restored, so that a process that is killed in between
//! leaves nothing that `--undo` cannot clean up.

use std::{fs, os::unix::fs::DirBuilderExt as _, path::Path};

use angelia_core::model::AuditAction;
use angelia_executors::EXECUTORS;

use super::{
    client::{Client, ClientFile, Connection, EditRefusal, FileState, Folders},
    codex, git_tracking, key_pickup,
};
use crate::{
    cli::{
        env::find_address,
        error::{CommandError, Exit},
        keys::keys_file::{KEY_PREFIX, KeySpec, KeysFile, find_key, hash_key},
        print,
        user_file::{PRIVATE_MODE, UserFile, UserFileError},
    },
    config::{Config, Environment, KeyHash},
    program::ProgramCall,
};

/// Stands in for a key that does not exist yet.
const KEY_PLACEHOLDER: &str = "KEY";

/// Maximum number of attempts to edit a file while another program writes it.
const MAX_ATTEMPTS: usize = 3;

/// The permission bits of users other than the owner.
const OTHERS_MASK: u32 = 0o077;

/// The context of `setup` for one client.
pub(super) struct ClientSetup<'a> {
    client: &'static Client,
    keys: KeysFile<'a>,
    config: Config,
    folders: Folders<'a>,
    files: Vec<ClientFile>,
    connection: Connection,
}

impl<'a> ClientSetup<'a> {
    pub(super) fn new(
        client: &'static Client,
        environment: &'a Environment,
        config_file: Option<&'a Path>,
        model: Option<&str>,
    ) -> Result<Self, CommandError> {
        let (keys, config) = KeysFile::open(environment, config_file)?;
        let clients = keys.home().dir().join("clients");
        let connection = Connection {
            url: String::new(),
            key: KEY_PLACEHOLDER.to_owned(),
            model: model.map_or_else(default_model, str::to_owned),
            calls_tools: true,
            key_file: clients.join(codex::KEY_FILE),
            acp: ProgramCall::find(environment, keys.home(), config_file, "acp")?,
        };
        let folders = Folders::new(environment, clients, keys.path().to_owned())?;
        let files = (client.files)(&folders)?;
        Ok(Self { client, keys, config, folders, files, connection })
    }

    /// Connects Angelia to a server's model, instead of a client to Angelia.
    pub(super) fn with_model(mut self, url: String, model: String, calls_tools: bool) -> Self {
        self.connection = Connection { url, model, calls_tools, ..self.connection };
        self
    }

    /// Prints the text that `--write` would write.
    pub(super) fn show(mut self) -> Result<Exit, CommandError> {
        self.find_url()?;
        for file in &self.files {
            let text = (file.with)(&FileState::default(), &self.connection)
                .map_err(|refusal| self.refusal(file, refusal))?;
            let lines: Vec<&str> = text.lines().filter(|line| !is_marker(line)).collect();
            print::line(&format!("In {}:\n\n{}\n", file.path.display(), lines.join("\n")))?;
        }
        let name = self.client.name;
        print::note(&format!("`angelia setup {name} --write` writes this"));
        if self.client.has_key {
            print::note(&format!(
                "{KEY_PLACEHOLDER} is then a key of its own, `{}`; by hand, use one of `angelia keys add`",
                self.client.key_name()
            ));
        }
        print::note(&format!("then: {}", (self.client.usage)(&self.folders)));
        Ok(Exit::Done)
    }

    pub(super) fn write(mut self) -> Result<Exit, CommandError> {
        self.find_url()?;
        let mut known_key = None;
        for file in &self.files {
            let text = self.read(file)?;
            // Refuse this before a key is created.
            (file.with)(&FileState { text: text.as_deref(), wide_mode: None }, &self.connection)
                .map_err(|refusal| self.refusal(file, refusal))?;
            known_key = known_key.or_else(|| self.key_in(file, text.as_deref()?));
        }
        if self.client.has_key {
            self.connection.key = match known_key {
                Some(key) => key,
                None => self.make_key()?,
            };
        }
        for file in &self.files {
            let is_changed = self.edit(file, |user_file, text| {
                let wide_mode = user_file.mode().filter(|mode| mode & OTHERS_MASK != 0);
                let wide_mode = wide_mode.filter(|_| file.holds_key);
                let new = (file.with)(&FileState { text, wide_mode }, &self.connection)?;
                let mode = if file.holds_key { Some(PRIVATE_MODE) } else { None };
                Ok((Some(new), mode))
            })?;
            let what = if is_changed { "written" } else { "nothing to change" };
            print::line(&format!("{}: {what}", file.path.display()))?;
        }
        if self.client.has_key {
            key_pickup::wait(self.keys.home(), self.keys.path(), hash_key(&self.connection.key));
        }
        print::note(&format!("now: {}", (self.client.usage)(&self.folders)));
        Ok(Exit::Done)
    }

    pub(super) fn undo(self) -> Result<Exit, CommandError> {
        let key = self.client.key_name();
        let mut is_anything_undone = false;
        if self.client.has_key && self.keys.revoke(&key)? {
            print::line(&format!("revoked `{key}`"))?;
            is_anything_undone = true;
        }
        // Restore the files in reverse order. Opening a file also removes the drafts of a killed
        // process.
        let is_there = |file: &&ClientFile| file.path.parent().is_some_and(Path::is_dir);
        for file in self.files.iter().rev().filter(is_there) {
            let is_changed = self.edit(file, |_, text| {
                let Some(text) = text else { return Ok((None, None)) };
                let removal = (file.without)(text)?;
                Ok((removal.text, removal.mode))
            })?;
            if is_changed {
                let what = if file.path.exists() { "as it was before" } else { "removed" };
                print::line(&format!("{}: {what}", file.path.display()))?;
            }
            is_anything_undone |= is_changed;
        }
        if !is_anything_undone {
            return print::line("nothing to undo");
        }
        Ok(Exit::Done)
    }

    fn find_url(&mut self) -> Result<(), CommandError> {
        if self.client.has_key {
            self.connection.url = find_address(self.keys.home(), &self.config)?.url();
        }
        Ok(())
    }

    /// Reads a file after checking that it may be written.
    fn read(&self, file: &ClientFile) -> Result<Option<String>, CommandError> {
        let environment = self.folders.environment;
        let is_there = file.path.parent().is_some_and(Path::is_dir);
        let (text, path) = if is_there {
            let user_file = UserFile::open(&file.path)?;
            (user_file.read()?, user_file.resolved_path().to_owned())
        } else {
            (None, file.path.clone())
        };
        // The lines for our own configuration contain no secret, and the owner may keep that file
        // in a repository.
        if file.path != self.folders.config_file {
            git_tracking::ensure_untracked(&path, self.client.name, environment)?;
        }
        Ok(text)
    }

    /// Returns this client's key in the text, if the key is still valid.
    fn key_in(&self, file: &ClientFile, text: &str) -> Option<String> {
        let key = find_key_text(text).filter(|_| file.holds_key)?;
        let known = find_key(&self.config, &self.client.key_name())?;
        (known.sha256 == hash_key(key)).then(|| key.to_owned())
    }

    /// Creates the key. Replaces an existing one, because its value cannot be recovered.
    fn make_key(&self) -> Result<String, CommandError> {
        let name = self.client.key_name();
        self.keys.home().prepare()?;
        let wish = KeySpec {
            name: &name,
            profiles: &[],
            providers: &[],
            agent_mode: false,
            max_cost_usd_per_day: None,
        };
        if !self.keys.revoke(&name)? {
            return self.keys.add(&self.config, &wish);
        }
        let (keys, config) = KeysFile::open(self.folders.environment, self.keys.explicit_path())?;
        keys.add(&config, &wish)
    }

    /// Edits one file. Returns whether anything changed.
    fn edit(
        &self,
        file: &ClientFile,
        make: impl Fn(&UserFile, Option<&str>) -> Result<(Option<String>, Option<u32>), EditRefusal>,
    ) -> Result<bool, CommandError> {
        if let Some(folder) = file.path.parent() {
            make_folder(folder)?;
        }
        let user_file = UserFile::open(&file.path)?;
        let mut attempt = 1;
        loop {
            let old = user_file.read()?;
            let (new, mode) =
                make(&user_file, old.as_deref()).map_err(|refusal| self.refusal(file, refusal))?;
            let mode = mode.or(user_file.mode()).unwrap_or(PRIVATE_MODE);
            if old == new && user_file.mode().is_none_or(|old| old == mode) {
                return Ok(false);
            }
            match user_file.replace_with_mode(old.as_deref(), new.as_deref(), mode) {
                Ok(()) => break,
                Err(UserFileError::Changed(_)) if attempt < MAX_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
        let subject = format!("setup {} in {}", self.client.name, file.path.display());
        self.keys.record_audit(AuditAction::Configuration, subject);
        Ok(true)
    }

    fn refusal(&self, file: &ClientFile, refusal: EditRefusal) -> CommandError {
        let (path, name) = (file.path.display(), self.client.name);
        match refusal {
            EditRefusal::Own(what) => {
                let message = format!("{path}: left alone: {what}");
                CommandError::new(Exit::Failed, message).with_hint(format!(
                    "remove it, or merge it yourself with what `angelia setup {name}` prints"
                ))
            }
            EditRefusal::Unreadable(why) => {
                let message = format!("{path}: left alone: {why}");
                CommandError::new(Exit::Config, message)
                    .with_hint(format!("correct it; `angelia setup {name}` prints what it needs"))
            }
        }
    }
}

/// Returns the first model of the first agent, which `executor: auto` would choose too.
fn default_model() -> String {
    let first = EXECUTORS.iter().find_map(|kind| {
        let model = kind.model_ids.listed_models.first()?;
        Some(format!("{}/{model}", kind.name))
    });
    first.unwrap_or_default()
}

/// Finds one of our keys in a text.
fn find_key_text(text: &str) -> Option<&str> {
    let length = KEY_PREFIX.len() + 2 * size_of::<KeyHash>();
    let found = text.match_indices(KEY_PREFIX).filter_map(|(at, _)| text.get(at..at + length));
    let is_key = |key: &&str| {
        key.strip_prefix(KEY_PREFIX)
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let mut keys = found.filter(is_key);
    keys.next()
}

/// Returns whether a line only marks Angelia's part.
fn is_marker(line: &str) -> bool {
    line.starts_with("# >>> angelia setup") || line.starts_with("# <<< angelia setup")
}

fn make_folder(path: &Path) -> Result<(), CommandError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        CommandError::new(Exit::Failed, format!("cannot make {}: {error}", path.display()))
            .with_hint("make it yourself, then run this again")
    })
}
