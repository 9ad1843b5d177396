//! `angelia approvals rules …`: the rules that the owner granted permanently with `always`.
//!
//! The rules are in the store, which several processes may open, so no daemon is needed. An engine
//! rereads them each time before it would ask a person.

use std::io::Write as _;

use angelia_core::{
    model::{GrantRule, StoredRule},
    ports::Store,
};
use serde::Serialize;

use super::replace_control_chars;
use crate::{
    assemble::{App, HomeStore},
    cli::{
        args::RulesCommand,
        error::{CommandError, Exit},
        print,
    },
};

/// Minimum length of an id prefix that selects a rule.
const MIN_PREFIX: usize = 4;

pub(super) async fn run(app: &App, command: RulesCommand) -> Result<Exit, CommandError> {
    let store = HomeStore::open_for_reading(app, "approvals")?;
    match command {
        RulesCommand::List { json } => {
            let listed = list(&*store, json).await?;
            if listed.is_empty() && !json {
                print::note("nothing is allowed permanently; `always` in an approval does that");
            }
            print::bytes(&listed)
        }
        RulesCommand::Remove { id } => print::line(&remove(&*store, &id).await?),
    }
}

/// A rule as `--json` prints it.
#[derive(Serialize)]
struct RuleLine<'a> {
    id: String,
    profile: &'a str,
    cwd: std::borrow::Cow<'a, str>,
    rule: String,
    /// Whether the rule covers a single call, so that a `*` in it is a literal character.
    exact: bool,
    created_at: String,
    by: &'a str,
}

impl<'a> From<&'a StoredRule> for RuleLine<'a> {
    fn from(stored: &'a StoredRule) -> Self {
        Self {
            id: stored.id.to_string(),
            profile: &stored.profile,
            cwd: stored.cwd.to_string_lossy(),
            rule: stored.rule.to_string(),
            exact: matches!(stored.rule, GrantRule::Exact { .. }),
            created_at: stored.created_at.to_string(),
            by: &stored.by,
        }
    }
}

async fn list(store: &dyn Store, json: bool) -> Result<Vec<u8>, CommandError> {
    let mut out = Vec::new();
    for stored in &store.rules().await? {
        if json {
            print::json_line(&RuleLine::from(stored), &mut out)?;
            continue;
        }
        // Writing to a vector cannot fail.
        let _infallible = writeln!(
            out,
            "{}  {}  {:12}  {}  {}",
            stored.id,
            print::format_minute(stored.created_at),
            replace_control_chars(&stored.profile),
            replace_control_chars(&stored.cwd.to_string_lossy()),
            replace_control_chars(&stored.rule.to_string()),
        );
    }
    Ok(out)
}

async fn remove(store: &dyn Store, id: &str) -> Result<String, CommandError> {
    let rules = store.rules().await?;
    let wanted = id.to_ascii_lowercase();
    let named: Vec<&StoredRule> = rules
        .iter()
        .filter(|stored| {
            let id = stored.id.to_string();
            id == wanted || wanted.len() >= MIN_PREFIX && id.starts_with(&wanted)
        })
        .collect();
    let hint = "`angelia approvals rules list` prints the rules with their ids";
    let rule = match *named {
        [rule] => rule,
        [] => {
            return Err(CommandError::new(Exit::Failed, format!("no rule has the id `{id}`"))
                .with_hint(hint));
        }
        _ => {
            let message = format!("several rules have an id that starts with `{id}`");
            return Err(CommandError::usage(message).with_hint(hint));
        }
    };
    store.remove_rule(rule.id).await?;
    Ok(format!("removed: {}", replace_control_chars(&rule.rule.to_string())))
}

#[cfg(test)]
mod tests {
    use angelia_testkit::memory_store::MemoryStore;
    use uuid::Uuid;

    use super::*;

    fn rule(id: u128, rule: GrantRule) -> StoredRule {
        StoredRule {
            id: Uuid::from_u128(id),
            profile: "default".into(),
            cwd: "/project".into(),
            rule,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            by: "owner".into(),
        }
    }

    #[tokio::test]
    async fn rules_are_listed_and_removed_by_id_or_prefix() {
        let store = MemoryStore::new();
        let exact = GrantRule::Exact { tool: "Bash".into(), subject: "rm *.o\u{1b}[2J".into() };
        store.add_rule(&rule(0x1111_2222 << 96, exact)).await.unwrap();
        let pattern = GrantRule::Pattern("Bash(npm run *)".parse().unwrap());
        store.add_rule(&rule(0x1111_3333 << 96, pattern)).await.unwrap();
        let text = String::from_utf8(list(&store, false).await.unwrap()).unwrap();
        assert!(text.contains("exactly Bash(rm *.o [2J)") && text.contains("Bash(npm run *)"));
        let json = String::from_utf8(list(&store, true).await.unwrap()).unwrap();
        let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!((&first["exact"], &first["cwd"]), (&true.into(), &"/project".into()));
        assert!(remove(&store, "1111").await.is_err(), "two rules have this prefix");
        assert!(remove(&store, "111").await.is_err(), "too short");
        assert!(remove(&store, "9999").await.is_err());
        assert_eq!(remove(&store, "11113333").await.unwrap(), "removed: Bash(npm run *)");
        assert_eq!(store.rules().await.unwrap().len(), 1);
    }
}
