//! `read`, `edit` and `write`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    sync::Arc,
};

use angelia_core::model::{FileChange, ToolClass};
use angelia_executors::native::tools::{
    Tool as _, edit::EditTool, read::ReadTool, write::WriteTool,
};
use serde_json::json;

use super::harness::{Place, call, done, image_of, mode_of, prepare, refused};

fn tools(place: &Place) -> (ReadTool, EditTool, WriteTool) {
    let workspace = || Arc::clone(&place.workspace);
    (ReadTool::new(workspace()), EditTool::new(workspace()), WriteTool::new(workspace()))
}

#[tokio::test]
async fn a_file_is_read_in_parts() {
    let place = Place::new();
    let (read, ..) = tools(&place);
    place.write("a.txt", "one\ntwo\r\nthree");
    assert_eq!(done(&read, json!({"path": "a.txt"})).await, "1\tone\n2\ttwo\n3\tthree\n");
    let part = done(&read, json!({"path": "a.txt", "offset": 2, "limit": 1})).await;
    assert_eq!(part, "2\ttwo\n(lines 2 to 2 of 3; go on with offset=3)\n");
    let beyond = done(&read, json!({"path": "a.txt", "offset": 9})).await;
    assert_eq!(beyond, "(the file has only 3 lines)\n");
    place.write("empty", "");
    assert_eq!(done(&read, json!({"path": "empty"})).await, "(the file is empty)\n");
    place.write("long", "line\n".repeat(5000));
    let long = done(&read, json!({"path": "long"})).await;
    assert!(long.ends_with("(lines 1 to 2000 of 5000; go on with offset=2001)\n"), "{long}");
}

#[tokio::test]
async fn what_cannot_be_read_says_what_to_do() {
    let place = Place::new();
    let (read, ..) = tools(&place);
    place.write("bytes", [1, 0, 2]);
    place.write("latin", b"caf\xe9\n");
    place.write("doc", b"%PDF-1.7\0");
    let bytes = done(&read, json!({"path": "bytes"})).await;
    assert_eq!(bytes, "bytes has 3 bytes and is binary");
    assert!(done(&read, json!({"path": "doc"})).await.contains("pdftotext"));
    assert!(done(&read, json!({"path": "latin"})).await.contains("not UTF-8"));
    assert!(refused(&read, json!({"path": "."})).await.contains("use `glob`"));
    assert!(refused(&read, json!({"path": "none"})).await.contains("`glob`"));
    assert!(refused(&read, json!({"path": ""})).await.contains("empty"));
    assert!(refused(&read, json!({"offset": 1})).await.contains("missing field `path`"));
    fs::File::create(place.path("big")).unwrap().set_len(17 << 20).unwrap();
    assert!(refused(&read, json!({"path": "big"})).await.contains("use `grep`"));
    symlink("nowhere", place.path("dangling")).unwrap();
    assert!(refused(&read, json!({"path": "dangling"})).await.contains("leads nowhere"));
}

/// The tools run in our own process: its environment has the keys of providers.
#[tokio::test]
async fn our_own_process_is_not_shown() {
    let place = Place::new();
    let (read, _, write) = tools(&place);
    symlink("/proc/self/environ", place.path("env")).unwrap();
    symlink("/proc/self", place.path("self")).unwrap();
    for path in ["/proc/self/environ", "env", "self/environ", "self/fd/0", "/dev/stdin", "/sys"] {
        let words = refused(&read, json!({"path": path})).await;
        // What a descriptor leads to may have no path at all.
        assert!(words.contains("only a command") || words.contains("nowhere"), "{path}: {words}");
    }
    let words = refused(&write, json!({"path": "self/mem", "content": "x"})).await;
    assert!(words.contains("only a command"), "{words}");
    // A link to the root of the process is an ordinary path.
    place.write("file", "x\n");
    let through = format!("/proc/self/root{}", place.path("file").display());
    assert_eq!(done(&read, json!({"path": through})).await, "1\tx\n");
}

#[tokio::test]
async fn an_image_is_shown_as_an_image() {
    let place = Place::new();
    let (read, ..) = tools(&place);
    let png = [b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 16]].concat();
    place.write("a.dat", &png);
    let output = call(&read, json!({"path": "a.dat"})).await;
    assert_eq!(image_of(&output), Some(("image/png", &*png)));
    place.write("big.png", [&*png, &vec![0; 4_000_000]].concat());
    assert!(refused(&read, json!({"path": "big.png"})).await.contains("make it smaller"));
}

#[test]
fn the_plan_has_real_paths() {
    let place = Place::new();
    let (read, edit, _) = tools(&place);
    symlink(place.root.join("else"), place.path("link")).unwrap();
    let call = prepare(&read, &json!({"path": "link/../else/./x"})).unwrap();
    assert_eq!(call.plan().class, ToolClass::Read);
    assert_eq!(call.plan().access.reads, [place.root.join("else/x")]);
    let arguments = json!({"path": "~/x", "old_string": "a", "new_string": "b"});
    let call = prepare(&edit, &arguments).unwrap();
    assert_eq!(call.plan().class, ToolClass::Edit);
    assert_eq!(call.plan().access.writes, [place.root.join("home/x")]);
    assert_eq!(&*call.plan().title, format!("edit {}", place.root.join("home/x").display()));
}

#[tokio::test]
async fn a_file_is_changed_only_as_it_was_read() {
    let place = Place::new();
    let (read, edit, write) = tools(&place);
    place.write("a", "one\ntwo\n");
    let change = || json!({"path": "a", "old_string": "two", "new_string": "2"});
    assert!(refused(&edit, change()).await.contains("you have not read it"));
    let whole = || json!({"path": "a", "content": "x"});
    assert!(refused(&write, whole()).await.contains("you have not read it"));

    done(&read, json!({"path": "a", "limit": 1})).await;
    place.write("a", "one\ntwo\nthree\n");
    assert!(refused(&edit, change()).await.contains("has changed on disk"));
    assert!(refused(&write, whole()).await.contains("has changed on disk"));
    assert_eq!(place.read("a"), "one\ntwo\nthree\n");

    done(&read, json!({"path": "a"})).await;
    let output = call(&edit, change()).await;
    assert_eq!(output.all_text(), "edited a:\n1\tone\n2\t2\n3\tthree\n");
    assert_eq!(output.changed, [place.path("a")]);
    // What the model wrote itself, it knows.
    done(&edit, json!({"path": "a", "old_string": "2", "new_string": "two"})).await;
    assert_eq!(done(&write, whole()).await, "replaced a: 1 lines, 1 bytes");
    assert_eq!(
        done(&write, json!({"path": "b/c", "content": "new\n"})).await,
        "created b/c: 1 lines, 4 bytes"
    );
    done(&edit, json!({"path": "b/c", "old_string": "new", "new_string": "newer"})).await;
    assert_eq!(place.read("b/c"), "newer\n");
    assert!(
        refused(&edit, json!({"path": "z", "old_string": "a", "new_string": "b"}))
            .await
            .contains("`write`")
    );
}

#[tokio::test]
async fn mark_line_ends_mode_and_links_are_kept() {
    let place = Place::new();
    let (read, edit, write) = tools(&place);
    place.write("real", "\u{feff}one\r\ntwo\r\n");
    fs::set_permissions(place.path("real"), fs::Permissions::from_mode(0o754)).unwrap();
    symlink("real", place.path("link")).unwrap();
    done(&read, json!({"path": "link"})).await;
    done(&edit, json!({"path": "link", "old_string": "one\ntwo", "new_string": "1\n2"})).await;
    assert_eq!(place.read("real"), "\u{feff}1\r\n2\r\n");
    done(&write, json!({"path": "link", "content": "a\nb\n"})).await;
    assert_eq!(place.read("real"), "\u{feff}a\r\nb\r\n");
    assert_eq!(mode_of(&place.path("real")), 0o754);
    assert!(place.path("link").is_symlink());
    assert_eq!(place.names(), ["link", "real"], "no temporary file is left");
}

#[tokio::test]
async fn a_review_shows_the_change_and_makes_none() {
    let place = Place::new();
    let (read, edit, _) = tools(&place);
    place.write("a", "x  \ny\r\n");
    let arguments = json!({"path": "a", "old_string": "x\ny", "new_string": "z"});
    let call = prepare(&edit, &arguments).unwrap();
    assert!(call.review().unwrap_err().to_string().contains("not read"), "nobody is asked in vain");
    done(&read, json!({"path": "a"})).await;
    let edits = call.review().unwrap();
    assert_eq!(edits[0].change, FileChange::Write("z\r\n".into()));
    assert_eq!(place.read("a"), "x  \ny\r\n");
}

#[tokio::test]
async fn text_that_would_be_damaged_is_not_edited() {
    let place = Place::new();
    let (read, edit, _) = tools(&place);
    place.write("latin", b"caf\xe9 a\n");
    done(&read, json!({"path": "latin"})).await;
    let words =
        refused(&edit, json!({"path": "latin", "old_string": "a", "new_string": "b"})).await;
    assert!(words.contains("not UTF-8"), "{words}");
    assert_eq!(fs::read(place.path("latin")).unwrap(), b"caf\xe9 a\n");
}

#[test]
fn schemas_are_json_and_short() {
    let place = Place::new();
    let (read, edit, write) = tools(&place);
    for definition in [read.definition(), edit.definition(), write.definition()] {
        let schema: serde_json::Value =
            serde_json::from_str(definition.input_schema.get()).unwrap();
        assert_eq!(schema["type"], "object", "{}", definition.name);
        assert!(definition.description.len() < 400);
    }
}
