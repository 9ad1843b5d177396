//! Keys that a command prints: a password manager's, or a token that expires. A command runs again
//! when its key has expired or was refused, and once at a time, because some tokens can be fetched
//! only once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::ports::{CommandOutput, CommandProgram, CommandRunner as _, CommandSpec};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::key::ProviderKey;
use crate::{ExecutorHost, process::ShellCommands};

/// A person may have to unlock a password manager.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// A key that expires sooner is fetched again, so that it lasts for the request.
const EXPIRY_MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// Names of the key in JSON, as the programs of vendors write it.
const KEY_FIELDS: [&str; 5] = ["access_token", "accessToken", "token", "api_key", "key"];

/// Names of the time at which it expires.
const EXPIRY_FIELDS: [&str; 4] = ["expires_on", "expires_at", "expiresAt", "expiry"];

type KeyCell = Arc<tokio::sync::Mutex<Option<PrintedKey>>>;

/// The keys that commands have printed, by the words of the command.
#[derive(Debug, Default)]
pub(crate) struct CommandKeys(Mutex<BTreeMap<Vec<Arc<str>>, KeyCell>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct PrintedKey {
    key: ProviderKey,
    /// `None`: it is good until it is refused.
    expires_at: Option<Timestamp>,
}

impl CommandKeys {
    /// Returns the key that a command has printed or prints now.
    pub(super) async fn read(
        &self,
        words: &[Arc<str>],
        host: &ExecutorHost,
    ) -> Result<ProviderKey, String> {
        let cell = Arc::clone(self.cells().entry(words.to_vec()).or_default());
        let mut cell = cell.lock().await;
        if let Some(known) = cell.as_ref().filter(|known| known.is_good_at(host.clock.now())) {
            return Ok(known.key.clone());
        }
        let printed = run(words, host).await?;
        Ok(cell.insert(printed).key.clone())
    }

    pub(super) fn forget(&self, words: &[Arc<str>]) {
        self.cells().remove(words);
    }

    fn cells(&self) -> MutexGuard<'_, BTreeMap<Vec<Arc<str>>, KeyCell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrintedKey {
    fn is_good_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| end.duration_since(now) > EXPIRY_MARGIN)
    }

    /// Reads what a command has printed.
    fn parse(stdout: &str, now: Timestamp) -> Option<Self> {
        let Ok(fields @ Value::Object(_)) = serde_json::from_str(stdout) else {
            return Some(Self { key: ProviderKey::new(stdout)?, expires_at: None });
        };
        let key = KEY_FIELDS.iter().find_map(|name| fields[name].as_str())?;
        let expires_at = EXPIRY_FIELDS.iter().find_map(|name| read_time(&fields[name]));
        let from_now = || {
            let seconds = i64::try_from(read_number(&fields["expires_in"])?).ok()?;
            now.checked_add(SignedDuration::from_secs(seconds)).ok()
        };
        Some(Self { key: ProviderKey::new(key)?, expires_at: expires_at.or_else(from_now) })
    }
}

async fn run(words: &[Arc<str>], host: &ExecutorHost) -> Result<PrintedKey, String> {
    let (program, arguments) = words.split_first().ok_or("a command has no words")?;
    let path = if program.contains('/') {
        Arc::clone(program)
    } else {
        let found = host.find_program(&**program, &host.environment);
        let found = found.ok_or_else(|| format!("there is no program `{program}` on PATH"))?;
        found.to_string_lossy().into()
    };
    let command = CommandSpec {
        program: CommandProgram::File(path, arguments.to_vec()),
        env: Vec::new(),
        input: None,
        timeout: COMMAND_TIMEOUT,
    };
    let ended = ShellCommands::new(host.clone()).run(command).await;
    let ended = ended.map_err(|error| format!("the command `{program}` did not start: {error}"))?;
    let CommandOutput { ok, timed_out, stdout, stderr } = ended;
    if timed_out {
        return Err(format!("the command `{program}` did not end within a minute"));
    }
    if !ok {
        return Err(format!("the command `{program}` failed: {}", stderr.trim()));
    }
    // What it printed may be a secret, so it is not quoted.
    let unreadable = || format!("the command `{program}` printed no key");
    let text = String::from_utf8(stdout).map_err(|_| unreadable())?;
    PrintedKey::parse(&text, host.clock.now()).ok_or_else(unreadable)
}

fn read_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Reads a time: seconds since 1970, as a number or as text, or RFC 3339.
fn read_time(value: &Value) -> Option<Timestamp> {
    let seconds = read_number(value).and_then(|seconds| i64::try_from(seconds).ok());
    match seconds {
        Some(seconds) => Timestamp::from_second(seconds).ok(),
        None => value.as_str()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_prints_a_key_or_json_with_its_expiry() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let parse = |text: &str| {
            let printed = PrintedKey::parse(text, now)?;
            let end = printed.expires_at.map(Timestamp::as_second);
            Some((printed.key.expose().to_owned(), end))
        };
        let key = |end| Some(("abc".to_owned(), end));
        assert_eq!(parse("abc\n"), key(None));
        assert_eq!(parse(r#"{"token":"abc"}"#), key(None));
        assert_eq!(parse(r#"{"accessToken":"abc","expires_on":1000600}"#), key(Some(1_000_600)));
        assert_eq!(parse(r#"{"access_token":"abc","expires_in":"60"}"#), key(Some(1_000_060)));
        assert_eq!(
            parse(r#"{"key":"abc","expires_at":"1970-01-12T13:46:50Z"}"#),
            key(Some(1_000_010))
        );
        for nothing in ["", "\n", r#"{"user":"abc"}"#, r#"{"token":""}"#, "an error happened"] {
            assert_eq!(parse(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_key_is_fetched_again_before_it_expires() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let good = |seconds: Option<i64>| {
            let expires_at =
                seconds.map(|seconds| Timestamp::from_second(1_000_000 + seconds).unwrap());
            PrintedKey { key: ProviderKey::new("abc").unwrap(), expires_at }.is_good_at(now)
        };
        assert!(good(None) && good(Some(301)));
        assert!(!good(Some(300)) && !good(Some(-1)));
    }
}
