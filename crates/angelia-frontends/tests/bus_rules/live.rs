//! An edited rules file applies from the next message on; a broken one is ignored.

use std::fs;

use angelia_frontends::bus_rules::{LiveRules, rules_paths};

#[test]
fn the_last_good_rules_stay_and_the_line_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus-rules.yaml");
    let rules = LiveRules::new(vec![path.clone()]);
    let (none, reports) = rules.current();
    assert!(none.callbacks.is_empty() && reports.is_empty());

    fs::write(&path, "callbacks:\n- match_type: a\n").unwrap();
    assert_eq!(rules.current().0.callbacks.len(), 1);

    fs::write(&path, "callbacks:\n- match_type: a\n- print: maybe\n").unwrap();
    let (kept, reports) = rules.current();
    assert_eq!(kept.callbacks.len(), 1);
    assert!(reports[0].broken, "{reports:?}");
    assert!(reports[0].to_string().contains("line 3"), "{}", reports[0]);
    assert!(rules.current().1.is_empty(), "told once");

    fs::write(&path, "callbacks:\n- match_type: a\n- match_type: b\n").unwrap();
    assert_eq!(rules.current().0.callbacks.len(), 2);
    fs::remove_file(&path).unwrap();
    assert!(rules.current().0.callbacks.is_empty());
}

#[test]
fn whoever_needs_only_the_rules_leaves_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus-rules.yaml");
    fs::write(&path, "callbacks: nonsense\n").unwrap();
    let rules = LiveRules::new(vec![path.clone()]);
    assert!(rules.without_reports().callbacks.is_empty());
    assert!(rules.current().1[0].broken, "not reported yet");
    assert!(rules.current().1.is_empty());
    // A named pipe is not waited for.
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    assert!(rules.current().1[0].to_string().contains("not a regular file"));
}

#[test]
fn rules_that_another_could_write_are_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus-rules.yaml");
    let rules = LiveRules::new(vec![path.clone()]);
    let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&path, "callbacks:\n- match_type: a\n").unwrap();
    set(0o666);
    let (none, reports) = rules.current();
    assert!(none.callbacks.is_empty());
    assert!(reports[0].broken && reports[0].what.contains("can be written by others"));
    set(0o644);
    assert_eq!(rules.current().0.callbacks.len(), 1);
    // An edit by somebody else changes nothing.
    fs::write(&path, "callbacks: []\n").unwrap();
    set(0o646);
    assert_eq!(rules.current().0.callbacks.len(), 1);
}

#[test]
fn ours_comes_before_the_one_that_was_brought() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let paths = rules_paths(ours.path().into(), Some(theirs.path().into()));
    let rules = LiveRules::new(paths.clone());
    fs::write(&paths[1], "callbacks: [{match_type: a}]\n").unwrap();
    assert_eq!(rules.current().0.callbacks.len(), 1);
    fs::write(&paths[0], "callbacks: []\n").unwrap();
    assert!(rules.current().0.callbacks.is_empty());
    fs::write(&paths[0], [0xff, 0xfe]).unwrap();
    assert!(rules.current().1[0].broken);
}
