//! Requests with more parameters than those in [`protocol`](super::protocol), and the parts of
//! their responses that we read.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::protocol::outgoing::{ApprovalPolicy, Call, ThreadStart, TurnStart};

/// `turn/start` with the permissions of the turn.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnStartWithPermissions<'a> {
    #[serde(flatten)]
    pub(super) turn: TurnStart<'a>,
    pub(super) permissions: &'a str,
    pub(super) approval_policy: ApprovalPolicy,
}

impl Call for TurnStartWithPermissions<'_> {
    const METHOD: &'static str = TurnStart::METHOD;
}

/// `thread/start` with the list of environments in which the thread may act.
#[derive(Debug, Serialize)]
pub(super) struct ThreadStartWithEnvironments<'a> {
    #[serde(flatten)]
    pub(super) thread: ThreadStart<'a>,
    /// An empty list means none: the thread has no machine to act on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) environments: Option<&'a [&'a str]>,
}

impl Call for ThreadStartWithEnvironments<'_> {
    const METHOD: &'static str = ThreadStart::METHOD;
}

/// `config/read`: the user's own configuration as currently in effect.
#[derive(Debug, Serialize)]
pub(super) struct ConfigRead {}

impl Call for ConfigRead {
    const METHOD: &'static str = "config/read";
}

/// Returns the names of the MCP servers in the response to [`ConfigRead`].
pub(super) fn mcp_server_names(result: &RawValue) -> Vec<Box<str>> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ConfigResponse {
        config: Config,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Config {
        mcp_servers: Option<BTreeMap<Box<str>, Value>>,
    }
    let body: ConfigResponse = serde_json::from_str(result.get()).unwrap_or_default();
    body.config.mcp_servers.unwrap_or_default().into_keys().collect()
}

/// `skills/list`: the skills that a prompt in a folder can name.
#[derive(Debug, Serialize)]
pub(super) struct SkillsList<'a> {
    pub(super) cwds: [&'a Path; 1],
}

impl Call for SkillsList<'_> {
    const METHOD: &'static str = "skills/list";
}

/// Returns the path of each skill in the response to [`SkillsList`].
pub(super) fn skill_paths(result: &RawValue) -> Vec<Box<str>> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct SkillsResponse {
        data: Vec<Folder>,
    }
    #[derive(Deserialize)]
    struct Folder {
        #[serde(default)]
        skills: Vec<Skill>,
    }
    #[derive(Deserialize)]
    struct Skill {
        path: Box<str>,
    }
    let body: SkillsResponse = serde_json::from_str(result.get()).unwrap_or_default();
    let skills = body.data.into_iter().flat_map(|folder| folder.skills);
    skills.map(|skill| skill.path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_in_the_configuration() {
        let names = |json: &str| mcp_server_names(&RawValue::from_string(json.to_owned()).unwrap());
        assert_eq!(
            names(r#"{"config":{"model":"m","mcp_servers":{"b":{},"a":{"x":1}}},"origins":{}}"#),
            ["a".into(), "b".into()]
        );
        for odd in ["{}", "[]", r#"{"config":{"mcp_servers":null}}"#] {
            assert!(names(odd).is_empty(), "{odd}");
        }
        let result = r#"{"data":[{"cwd":"/","skills":[{"name":"s","path":"/s/SKILL.md"}]}]}"#;
        let result = RawValue::from_string(result.to_owned()).unwrap();
        assert_eq!(skill_paths(&result), ["/s/SKILL.md".into()]);
    }
}
