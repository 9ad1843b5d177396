//! Tests of the comparison of two profiles.

use angelia_core::model::{Mode, PermissionLevel, Permissions, SessionSpec, ToolSet};

use super::Privileges;

fn spec(level: PermissionLevel) -> SessionSpec {
    let mut spec = SessionSpec::new("fake", "/project");
    spec.permissions.level = level;
    spec
}

fn permissions(allowed: &[&str], disallowed: &[&str]) -> Permissions {
    let parse = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    Permissions {
        level: PermissionLevel::Ask,
        allowed: parse(allowed),
        disallowed: parse(disallowed),
    }
}

fn excess(target: &SessionSpec, caller: &SessionSpec) -> Option<String> {
    Privileges::of(target).excess_over(&Privileges::of(caller))
}

#[test]
fn levels_are_compared() {
    use PermissionLevel::{Ask, Edit, Unattended};
    let levels = [Ask, Edit, Unattended];
    for (rank, target) in levels.into_iter().enumerate() {
        for (other, caller) in levels.into_iter().enumerate() {
            let more = excess(&spec(target), &spec(caller));
            assert_eq!(more.is_some(), rank > other, "{target:?} {caller:?}");
        }
    }
}

#[test]
fn rules_are_compared() {
    type Rules = &'static [&'static str];
    // The target's allowed and disallowed tools, the caller's, and whether the target may do more.
    let cases: &[(Rules, Rules, Rules, Rules, bool)] = &[
        (&["Read"], &[], &["Read"], &[], false),
        (&["Read"], &[], &[], &[], true),
        (&["Bash(git status*)"], &[], &["Bash(git *)"], &[], false),
        (&["Bash"], &[], &["Bash(git *)"], &[], true),
        (&["mcp__angelia__*"], &[], &[], &[], false),
        (&[], &[], &[], &["WebFetch"], true),
        (&[], &["*"], &[], &["WebFetch"], false),
        (&[], &["WebFetch", "Bash(rm *)"], &[], &["WebFetch"], false),
    ];
    for (allowed, disallowed, callers, refused, more) in cases {
        let (mut target, mut caller) = (spec(PermissionLevel::Ask), spec(PermissionLevel::Ask));
        target.permissions = permissions(allowed, disallowed);
        caller.permissions = permissions(callers, refused);
        assert_eq!(excess(&target, &caller).is_some(), *more, "{allowed:?}");
    }
    // An unattended caller needs no approvals, so no allowed tool of the target is more.
    let mut target = spec(PermissionLevel::Unattended);
    target.permissions.allowed = permissions(&["Bash"], &[]).allowed;
    assert_eq!(excess(&target, &spec(PermissionLevel::Unattended)), None);
}

#[test]
fn places_trust_tools_and_modes_are_compared() {
    let caller = spec(PermissionLevel::Edit);
    let changed = |change: &dyn Fn(&mut SessionSpec)| {
        let mut target = caller.clone();
        change(&mut target);
        excess(&target, &caller)
    };
    assert_eq!(changed(&|_| {}), None);
    assert_eq!(changed(&|it| it.cwd = "/project/part".into()), None);
    assert!(changed(&|it| it.cwd = "/projects".into()).is_some());
    assert!(changed(&|it| it.cwd = "/".into()).is_some());
    assert!(changed(&|it| it.trust = true).is_some());
    assert!(changed(&|it| it.tools = ToolSet::All).is_some());
    assert_eq!(changed(&|it| it.tools = ToolSet::None), None);
    // A profile in model mode is never more.
    let model = |it: &mut SessionSpec| {
        it.mode = Mode::Model;
        it.cwd = "/elsewhere".into();
        it.permissions.level = PermissionLevel::Unattended;
    };
    assert_eq!(changed(&model), None);
    let mut lesser = caller.clone();
    lesser.mode = Mode::Model;
    assert!(excess(&caller, &lesser).is_some());
}
