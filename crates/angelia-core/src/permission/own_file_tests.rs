//! The files in `$ANGELIA_HOME` that belong to a session.

use super::{
    authority::AccessCheck,
    tests::{SESSION, bash, check, is_protected, reads, rules, writes},
};
use crate::model::PermissionLevel;

#[test]
fn a_session_reads_its_own_files_and_not_the_homes_secrets() {
    let own = format!("/home/me/.angelia/sessions/{SESSION}");
    for level in [PermissionLevel::Ask, PermissionLevel::Unattended] {
        let rules = rules(level, &["Read", "Read(*)"], &[]);
        for path in [
            format!("{own}/inbox/a"),
            format!("{own}/output/b"),
            "/home/me/.angelia/skills/s/SKILL.md".into(),
            "/home/me/.angelia/memory/default/m".into(),
        ] {
            assert_eq!(check(&rules, &reads(&path)), AccessCheck::Allow, "{path}");
            assert!(is_protected(&check(&rules, &writes(&[&path]))), "{path}");
        }
        for path in [
            "/home/me/.angelia/token",
            "/home/me/.angelia/state.db",
            "/home/me/.angelia/state.db-wal",
            "/home/me/.angelia/config.yaml",
            "/home/me/.angelia/sessions/other/inbox/a",
            "/home/me/.angelia/memory/another/m",
            "../.angelia/token",
            "/home/me/.ssh/id_rsa",
        ] {
            assert!(is_protected(&check(&rules, &reads(path))), "{path}");
        }
    }
}

#[test]
fn a_session_writes_the_files_for_its_chat() {
    let folder = format!("/home/me/.angelia/sessions/{SESSION}/output/chat");
    let file = format!("{folder}/report.pdf");
    let to_ask = AccessCheck::Ask { protected: None };
    for (level, got) in [
        (PermissionLevel::Ask, to_ask),
        (PermissionLevel::Edit, AccessCheck::Allow),
        (PermissionLevel::Unattended, AccessCheck::Allow),
    ] {
        let rules = rules(level, &[], &[]);
        assert_eq!(check(&rules, &writes(&[&file])), got, "{level:?}");
        assert_eq!(check(&rules, &reads(&file)), AccessCheck::Allow, "{level:?}");
        for other in [
            "/home/me/.angelia/sessions/other/output/chat/a".to_owned(),
            format!("{folder}/../a"),
            format!("{folder}/../../inbox/a"),
        ] {
            assert!(is_protected(&check(&rules, &writes(&[&other]))), "{level:?} {other}");
        }
    }
    let unattended = rules(PermissionLevel::Unattended, &[], &[]);
    let copy = format!("cp report.pdf {folder}/");
    assert_eq!(check(&unattended, &bash(&copy)), AccessCheck::Allow);
}
