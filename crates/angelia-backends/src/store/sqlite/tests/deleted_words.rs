//! Nothing of a deleted conversation stays in the tables of the search.

use angelia_core::{
    model::{Content, SearchQuery, SearchTerms},
    ports::{SearchUpkeep, Store as _},
};
use angelia_testkit::conformance::store::{event, finished, plain_session, plain_turn};
use rusqlite::{Connection, types::ValueRef};

use super::open_store;

/// Counts the values in the tables of the search that contain these bytes.
fn count_traces(path: &std::path::Path, bytes: &[u8]) -> usize {
    let database = Connection::open(path).unwrap();
    let mut traces = 0;
    for table in ["texts", "words_content", "words_data", "words_idx", "words_docsize"] {
        let mut rows = database.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                let (ValueRef::Text(value) | ValueRef::Blob(value)) = row.get_ref(column).unwrap()
                else {
                    continue;
                };
                traces += usize::from(value.windows(bytes.len()).any(|window| window == bytes));
            }
        }
    }
    traces
}

#[tokio::test]
async fn words_of_a_deleted_session_leave_no_trace() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let store = open_store(&home);
    let say = async |text: &str| {
        let session = plain_session();
        store.create_session(&session).await.unwrap();
        let lease = store.acquire_lease(session.id).await.unwrap();
        let mut turn = plain_turn(session.id);
        turn.input = vec![Content::text(text)];
        store.create_turn(&lease, &turn.clone().into()).await.unwrap();
        let appended = store.append(&lease, vec![event(&turn, 1, finished())]).await.unwrap();
        appended.await.unwrap();
        session.id
    };
    let search = async |word: &str| {
        let query = SearchQuery { terms: SearchTerms::parse(word).unwrap(), limit: 9 };
        store.search(query).await.unwrap().len()
    };
    for number in 0..40 {
        say(&format!("plain talk {number} about this and that")).await;
    }
    assert_eq!(search("ዓለም").await, 0);
    let deleted = say("the word is ዓለም").await;
    assert_eq!(search("ዓለም").await, 1);
    for number in 0..40 {
        say(&format!("more talk {number}")).await;
    }
    assert_eq!(search("talk").await, 9);
    let (text, trigram) = ("the word is ዓለም".as_bytes(), "ዓለም".as_bytes());
    assert!(count_traces(&path, text) > 0 && count_traces(&path, trigram) > 1);

    store.delete_session(deleted).await.unwrap();
    assert_eq!(count_traces(&path, text), 0);
    assert_eq!(store.maintain_search().await.unwrap(), SearchUpkeep::HasDeletedWords);
    while store.maintain_search().await.unwrap() != SearchUpkeep::Complete {}
    assert_eq!(count_traces(&path, trigram), 0);
    assert_eq!((search("ዓለም").await, search("talk").await), (0, 9));
}
