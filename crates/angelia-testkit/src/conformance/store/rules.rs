//! Rules that people granted permanently.

use angelia_core::model::{GrantRule, StoredRule};
use jiff::Timestamp;

use super::{StoreFixture, samples::fresh_uuid};

fn rule(profile: &str, cwd: &str, rule: GrantRule) -> StoredRule {
    StoredRule {
        id: fresh_uuid(),
        profile: profile.into(),
        cwd: cwd.into(),
        rule,
        created_at: Timestamp::from_second(1_700_000_000).unwrap(),
        by: "owner".into(),
    }
}

fn exact(subject: &str) -> GrantRule {
    GrantRule::Exact { tool: "Bash".into(), subject: subject.into() }
}

pub async fn rules_are_kept_until_they_are_removed(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let pattern = |text: &str| GrantRule::Pattern(text.parse().unwrap());
    let rules = [
        rule("default", "/project", exact("make 'a *'\nin /project/sub")),
        rule("default", "/project", pattern("Bash(make *)")),
        rule("default", "/other", exact("make")),
        rule("careful", "/project", pattern("mcp__docs__*")),
    ];
    for one in &rules {
        store.add_rule(one).await.unwrap();
    }
    let again = rule("default", "/other", exact("make"));
    store.add_rule(&again).await.unwrap();
    assert_eq!(store.rules().await.unwrap(), rules, "the same grant is kept once");
    assert!(store.remove_rule(rules[1].id).await.unwrap());
    assert!(!store.remove_rule(rules[1].id).await.unwrap(), "it is gone");
    let left = store.rules().await.unwrap();
    assert_eq!(left, [rules[0].clone(), rules[2].clone(), rules[3].clone()]);
    store.close().await;
}
