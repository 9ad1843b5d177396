//! Where keys come from.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc};

use angelia_core::model::FailureKind;
use angelia_executors::native::providers::{KeySource, load_key};
use jiff::SignedDuration;

use crate::place::Place;

fn env(name: &str) -> KeySource {
    KeySource::Env(name.into())
}

/// A command that counts its runs in a file and prints what `script` prints.
fn command(place: &Place, script: &str) -> (KeySource, PathBuf) {
    let runs = place.folder.root().join("runs");
    let path = place.folder.root().join("print-key");
    let text = format!("#!/bin/sh\necho run >> '{}'\n{script}\n", runs.display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let words = [path.to_str().unwrap(), "argument"];
    (KeySource::Command(words.map(Arc::from).into()), runs)
}

fn count(runs: &PathBuf) -> usize {
    fs::read_to_string(runs).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn the_first_source_with_a_key_counts_and_the_key_is_masked() {
    let place = Place::new(&[("EMPTY_KEY", ""), ("GOOD_KEY", "the-good-key-1")]);
    let file = place.folder.root().join("key");
    fs::write(&file, "the-key-in-the-file\n").unwrap();
    let sources = [env("NO_KEY"), env("EMPTY_KEY"), KeySource::File(file.clone()), env("GOOD_KEY")];
    let key = load_key(&sources, &place.host).await.unwrap().unwrap();
    assert_eq!(key.expose(), "the-key-in-the-file");
    let text = "Bearer the-key-in-the-file";
    assert!(!place.host.redactor.redact(text).contains("the-key-in-the-file"));
    fs::remove_file(&file).unwrap();
    let key = load_key(&sources, &place.host).await.unwrap().unwrap();
    assert_eq!(key.expose(), "the-good-key-1");
    let set: Vec<Option<bool>> = sources
        .iter()
        .map(|source| source.is_set(&place.host.environment, &place.host.logins_dir()))
        .collect();
    assert_eq!(set, [Some(false), Some(false), Some(false), Some(true)]);
}

#[tokio::test]
async fn without_sources_there_is_no_key_and_without_a_key_the_failure_says_where_it_was_sought() {
    let place = Place::new(&[("BAD_KEY", "two words")]);
    assert_eq!(load_key(&[], &place.host).await, Ok(None));
    let missing = place.folder.root().join("missing");
    let (broken, _) = command(&place, "echo the vault is locked >&2; exit 3");
    let silent = KeySource::Command(vec!["false".into()]);
    let absent = KeySource::Command(vec!["no-such-program".into()]);
    let file = KeySource::File(missing.clone());
    let sources = [env("NO_KEY"), env("BAD_KEY"), file, broken, silent, absent];
    let failure = load_key(&sources, &place.host).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Auth);
    let text = failure.to_string();
    for said in [
        "the variable `NO_KEY` is not set",
        "the variable `BAD_KEY` has characters",
        &format!("there is no file {}", missing.display()),
        "failed: the vault is locked",
        "the command `false` failed without a word; run it yourself; ",
        "there is no program `no-such-program`",
    ] {
        assert!(text.contains(said), "{text}");
    }
    assert!(!text.contains("two words"), "{text}");
}

#[tokio::test]
async fn a_command_runs_once_until_its_key_expires_or_is_refused() {
    let place = Place::new(&[]);
    let (source, runs) = command(&place, "echo the-printed-key-$1");
    let sources = [source];
    for _ in 0..3 {
        let key = load_key(&sources, &place.host).await.unwrap().unwrap();
        assert_eq!(key.expose(), "the-printed-key-argument");
    }
    place.clock.advance(SignedDuration::from_hours(100));
    load_key(&sources, &place.host).await.unwrap();
    assert_eq!(count(&runs), 1);
    let refused = load_key(&sources, &place.host).await.unwrap().unwrap();
    sources[0].renew(&refused, &place.host).await.unwrap();
    assert_eq!(count(&runs), 2);
}

#[tokio::test]
async fn e27_a_key_that_many_sessions_find_refused_is_made_again_once() {
    let place = Place::new(&[]);
    let (source, runs) =
        command(&place, "echo the-key-$(wc -l < \"$(dirname \"$0\")/runs\" | tr -d ' ')");
    let old = source.load(&place.host).await.unwrap();
    let renew = || source.renew(&old, &place.host);
    let (one, two, three) = tokio::join!(renew(), renew(), renew());
    for key in [one, two, three] {
        assert_eq!(key.unwrap().expose(), "the-key-2");
    }
    assert_eq!(count(&runs), 2);
}

#[tokio::test]
async fn e27_a_key_that_cannot_be_renewed_early_is_used_until_it_expires() {
    let place = Place::new(&[]);
    let script = r#"[ $(wc -l < "$(dirname "$0")/runs") = 1 ] || exit 1
echo '{"token":"the-token","expires_in":3600}'"#;
    let (source, _) = command(&place, script);
    source.load(&place.host).await.unwrap();
    place.clock.advance(SignedDuration::from_mins(58));
    assert_eq!(source.load(&place.host).await.unwrap().expose(), "the-token");
    place.clock.advance(SignedDuration::from_mins(3));
    assert!(source.load(&place.host).await.is_err());
}

#[tokio::test]
async fn a_key_with_an_expiry_is_fetched_again_in_time() {
    let place = Place::new(&[]);
    let (source, runs) = command(&place, r#"echo '{"accessToken":"the-token","expires_in":3600}'"#);
    let sources = [source];
    load_key(&sources, &place.host).await.unwrap();
    place.clock.advance(SignedDuration::from_mins(54));
    load_key(&sources, &place.host).await.unwrap();
    assert_eq!(count(&runs), 1);
    place.clock.advance(SignedDuration::from_mins(2));
    load_key(&sources, &place.host).await.unwrap();
    assert_eq!(count(&runs), 2);
}

#[tokio::test]
async fn sessions_that_begin_together_run_a_command_once() {
    let place = Place::new(&[]);
    let (source, runs) = command(&place, "sleep 0.2; echo the-slow-key");
    let sources = [source];
    let load = || load_key(&sources, &place.host);
    let (one, two, three) = tokio::join!(load(), load(), load());
    for key in [one, two, three] {
        assert_eq!(key.unwrap().unwrap().expose(), "the-slow-key");
    }
    assert_eq!(count(&runs), 1);
}
