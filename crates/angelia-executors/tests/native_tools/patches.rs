//! `apply_patch`.

use std::sync::Arc;

use angelia_core::model::FileChange;
use angelia_executors::native::tools::apply_patch::ApplyPatchTool;
use serde_json::{Value, json};

use super::harness::{Place, call, prepare, refused};

fn patch(changes: &str) -> Value {
    json!({"patch": format!("*** Begin Patch\n{changes}\n*** End Patch")})
}

#[tokio::test]
async fn files_are_added_changed_moved_and_deleted() {
    let place = Place::new();
    let tool = ApplyPatchTool::new(Arc::clone(&place.workspace));
    place.write("crlf", "a\r\nb\r\n");
    place.write("from", "x\n");
    place.write("gone", "");
    let changes = "*** Add File: new/file\n+hello\n*** Update File: crlf\n a\n-b\n+c\n+d\n\
                   *** Update File: from\n*** Move to: to\n-x\n+y\n*** Delete File: gone";
    let prepared = prepare(&tool, &patch(changes)).unwrap();
    let paths = ["new/file", "crlf", "from", "to", "gone"].map(|name| place.path(name));
    assert_eq!(prepared.plan().access.writes, paths);
    let edits = prepared.review().unwrap();
    assert_eq!(edits[1].change, FileChange::Write("a\r\nc\r\nd\r\n".into()));
    let output = call(&tool, patch(changes)).await;
    assert_eq!(output.all_text(), "changed:\nA new/file\nM crlf\nA to\nD from\nD gone\n");
    assert_eq!(output.changed.len(), 5);
    assert_eq!(place.read("new/file"), "hello\n");
    assert_eq!(place.read("crlf"), "a\r\nc\r\nd\r\n");
    assert_eq!(place.read("to"), "y\n");
    assert_eq!(place.names(), ["crlf", "new", "to"]);
}

#[tokio::test]
async fn a_patch_that_does_not_fit_changes_nothing() {
    let place = Place::new();
    let tool = ApplyPatchTool::new(Arc::clone(&place.workspace));
    place.write("a", "one\n");
    place.write("b", "two\n");
    let good = "*** Update File: a\n-one\n+1\n";
    let table = [
        ("*** Update File: b\n-none", "not in the file"),
        ("*** Update File: c\n-x", "c does not exist"),
        ("*** Delete File: c", "c does not exist"),
        ("*** Add File: b\n+x", "use `*** Update File`"),
        ("*** Update File: b\n*** Move to: ./c\n-two\n*** Delete File: c", "names c twice"),
        ("*** Update File: ./a\n-one", "names a twice"),
        ("*** Update File: b\nx", "line 6 of the patch"),
    ];
    for (bad, words) in table {
        let said = refused(&tool, patch(&format!("{good}{bad}"))).await;
        assert!(said.contains(words), "{bad}: {said}");
        assert_eq!((place.read("a"), place.read("b")), ("one\n".into(), "two\n".into()));
    }
    assert_eq!(place.names(), ["a", "b"]);
}
