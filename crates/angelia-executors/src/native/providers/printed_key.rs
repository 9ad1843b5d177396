//! Keys that a command prints: a password manager's, or a token that expires.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{CommandOutput, CommandProgram, CommandRunner as _, CommandSpec};
use jiff::Timestamp;
use serde_json::Value;

use super::{key::ProviderKey, made_keys::MadeKey};
use crate::{ExecutorHost, process::ShellCommands};

/// A person may have to unlock a password manager.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs a command and reads the key that it prints.
pub(super) async fn run(words: &[Arc<str>], host: &ExecutorHost) -> Result<MadeKey, String> {
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
        return Err(match stderr.trim() {
            "" => format!("the command `{program}` failed without a word; run it yourself"),
            words => format!("the command `{program}` failed: {words}"),
        });
    }
    // The output may be a secret, so it is not quoted.
    let unreadable = || format!("the command `{program}` printed no key");
    let text = String::from_utf8(stdout).map_err(|_| unreadable())?;
    parse(&text, host.clock.now()).ok_or_else(unreadable)
}

/// Reads what a command has printed: a key alone, or JSON.
fn parse(stdout: &str, now: Timestamp) -> Option<MadeKey> {
    match serde_json::from_str(stdout) {
        Ok(fields @ Value::Object(_)) => MadeKey::from_json(&fields, now),
        _ => Some(MadeKey::new(ProviderKey::new(stdout)?, None, now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_prints_a_key_or_json_with_its_expiry() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let read = |text: &str| {
            let printed = parse(text, now)?;
            let end = printed.expires_at().map(Timestamp::as_second);
            Some((printed.key.expose().to_owned(), end))
        };
        let key = |end| Some(("abc".to_owned(), end));
        assert_eq!(read("abc\n"), key(None));
        assert_eq!(read(r#"{"token":"abc"}"#), key(None));
        assert_eq!(read(r#"{"accessToken":"abc","expires_on":1000600}"#), key(Some(1_000_600)));
        assert_eq!(read(r#"{"access_token":"abc","expires_in":"60"}"#), key(Some(1_000_060)));
        assert_eq!(
            read(r#"{"key":"abc","expires_at":"1970-01-12T13:46:50Z"}"#),
            key(Some(1_000_010))
        );
        for nothing in ["", "\n", r#"{"user":"abc"}"#, r#"{"token":""}"#, "an error happened"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
