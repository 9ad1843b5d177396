//! Files that cannot be opened or used: a clear error, nothing changed, no panic.

use std::{
    fs,
    path::Path,
    sync::{Arc, Barrier},
};

use angelia_backends::store::{OpenStoreError, SqliteStore};
use angelia_core::ports::{Page, Store as _};
use angelia_testkit::conformance::store::{full_session, plain_session};
use rusqlite::Connection;

use crate::home::TempHome;

/// Asserts that opening fails with this message and leaves the file unchanged.
fn assert_refused(home: &TempHome, words: &[&str]) -> OpenStoreError {
    let before = fs::read(home.database_path()).unwrap();
    let error = home.try_open().unwrap_err();
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
    assert!(text.contains("state.db"), "which file: {text}");
    assert_eq!(fs::read(home.database_path()).unwrap(), before, "changed: {text}");
    error
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    for content in [&b"not a database, but long enough to look at. "[..], &[0xff; 5000]] {
        let home = TempHome::new();
        fs::write(home.database_path(), content.repeat(20)).unwrap();
        assert_refused(&home, &["not a database", "move the file aside", "start again"]);
    }
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let home = TempHome::new();
    let other = Connection::open(home.database_path()).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(other);
    assert_refused(&home, &["another program", "ANGELIA_HOME"]);
}

#[test]
fn a_newer_database_is_left_alone() {
    let home = TempHome::new();
    drop(home.open());
    let newer = Connection::open(home.database_path()).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    newer.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(newer);
    let error = assert_refused(&home, &["newer", "99"]);
    assert!(matches!(error, OpenStoreError::Newer { found: 99, .. }));
}

#[tokio::test]
async fn a_damaged_page_is_named_and_does_not_stop_the_rest() {
    let home = TempHome::new();
    let store = home.open();
    for _ in 0..50 {
        store.create_session(&full_session()).await.unwrap();
    }
    let session = full_session();
    store.create_session(&session).await.unwrap();
    store.close().await;
    drop(store);
    let mut bytes = fs::read(home.database_path()).unwrap();
    // Keep the schema intact, so that the file opens; the newest rows are in the last pages.
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    fs::write(home.database_path(), bytes).unwrap();

    let store = home.open();
    let read = store.session(session.id).await.unwrap_err().to_string();
    let written = store.create_session(&plain_session()).await.unwrap_err();
    for text in [read, written.to_string()] {
        assert!(text.contains("damaged") && text.contains("mv "), "{text}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_truncated_file_is_named() {
    let home = TempHome::new();
    let store = home.open();
    for _ in 0..50 {
        store.create_session(&full_session()).await.unwrap();
    }
    store.close().await;
    drop(store);
    let bytes = fs::read(home.database_path()).unwrap();
    fs::write(home.database_path(), &bytes[..bytes.len() / 2]).unwrap();
    // The damage shows on opening or on the first read, depending on what is missing.
    let text = match home.try_open() {
        Err(error) => error.to_string(),
        Ok(store) => {
            let error = store.sessions(Page::first(100)).await.unwrap_err();
            error.to_string()
        }
    };
    assert!(text.contains("damaged"), "{text}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let home = TempHome::new();
    let cases = [
        home.path().join("missing/state.db"),
        // A folder where the file should be.
        home.path().to_path_buf(),
        // Not even root can write there.
        "/proc/state.db".into(),
    ];
    for path in cases {
        if path.starts_with("/proc") && !Path::new("/proc/self").exists() {
            continue;
        }
        let text = SqliteStore::open(&path, home.register_owner()).unwrap_err().to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains("check that") || text.contains("write permission"), "{text}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_home_says_so() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = TempHome::new();
    let store = home.open();
    store.create_session(&plain_session()).await.unwrap();
    store.close().await;
    drop(store);
    let owner = home.register_owner();
    let set = |mode_of_file, mode_of_folder| {
        fs::set_permissions(home.database_path(), fs::Permissions::from_mode(mode_of_file))
            .unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(mode_of_folder)).unwrap();
    };
    set(0o400, 0o500);
    let is_enforced = fs::write(home.path().join("probe"), "").is_err();
    let opened = SqliteStore::open(&home.database_path(), Arc::clone(&owner));
    set(0o600, 0o700);
    // Root may write anywhere.
    if is_enforced {
        let text = opened.unwrap_err().to_string();
        assert!(text.contains("read-only") && text.contains("permission"), "{text}");
    }
    let store = home.open();
    assert_eq!(store.sessions(Page::first(9)).await.unwrap().len(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_private() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = TempHome::new();
    let store = home.open();
    store.create_session(&plain_session()).await.unwrap();
    for entry in fs::read_dir(home.path()).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        if metadata.is_file() {
            let mode = metadata.permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.path());
        }
    }
}

#[test]
fn many_may_open_a_new_file_at_once() {
    let home = TempHome::new();
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let owner = home.register_owner();
                barrier.wait();
                SqliteStore::open(&home.database_path(), owner).unwrap();
            });
        }
    });
    drop(home.open());
}

/// The schema that all migrations produce. A released migration never changes: add a new one.
#[test]
fn the_schema_is_the_one_we_know() {
    let home = TempHome::new();
    drop(home.open());
    let database = Connection::open(home.database_path()).unwrap();
    let mut statement = database
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let schema: Vec<_> = rows.map(Result::unwrap).collect();
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    insta::assert_snapshot!(format!("version {version}\n\n{}", schema.join("\n\n")));
}
