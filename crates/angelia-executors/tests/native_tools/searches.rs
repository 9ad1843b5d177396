//! `grep` and `glob`.

use std::{fs, os::unix::fs::symlink, sync::Arc};

use angelia_executors::native::tools::{CallIo, glob::GlobTool, grep::GrepTool};
use serde_json::json;

use super::{
    harness::{Place, done, prepare, refused},
    session::private_files,
};

fn tools(place: &Place) -> (GrepTool, GlobTool) {
    let private = Arc::new(private_files(&place.root, place.workspace.cwd()));
    let workspace = || Arc::clone(&place.workspace);
    (GrepTool::new(workspace(), Arc::clone(&private)), GlobTool::new(workspace(), private))
}

fn project() -> Place {
    let place = Place::new();
    for (name, content) in [
        ("b.rs", "fn one() {}\nfn two() {}\n"),
        ("a/c.rs", "x\ny\nfn three() {}\nz\n"),
        ("a/c.txt", "fn text\r\n"),
        (".github/ci.yml", "fn: 1\n"),
        ("target/out.rs", "fn ignored() {}\n"),
        (".gitignore", "target\n"),
        (".git/config", "fn secret\n"),
        (".netrc", "fn password\n"),
    ] {
        place.write(name, content);
    }
    place.write("binary", b"fn \0");
    symlink(place.root.join("else"), place.path("link")).unwrap();
    fs::write(place.root.join("else/far.rs"), "fn far() {}\n").unwrap();
    place
}

#[tokio::test]
async fn files_are_searched_as_by_ripgrep() {
    let place = project();
    let (grep, _) = tools(&place);
    let found = done(&grep, json!({"pattern": "^fn"})).await;
    let expected = ".github/ci.yml\n1:fn: 1\na/c.rs\n3:fn three() {}\na/c.txt\n1:fn text\n\
                    b.rs\n1:fn one() {}\n2:fn two() {}\n";
    assert_eq!(found, expected, "ignored, private and linked files are left out");
    let files = done(&grep, json!({"pattern": "fn", "glob": "*.rs", "mode": "files"})).await;
    assert_eq!(files, "a/c.rs\nb.rs\n");
    let counts = done(&grep, json!({"pattern": "fn", "glob": "**/*.rs", "mode": "count"})).await;
    assert_eq!(counts, "a/c.rs: 1\nb.rs: 2\n");
    let context = done(&grep, json!({"pattern": "three", "path": "a/c.rs", "context": 1})).await;
    assert_eq!(context, "a/c.rs\n2-y\n3:fn three() {}\n4-z\n");
    assert_eq!(done(&grep, json!({"pattern": "nowhere"})).await, "no match\n");
    assert_eq!(done(&grep, json!({"pattern": "(?i)FN TEXT", "mode": "files"})).await, "a/c.txt\n");
    assert!(refused(&grep, json!({"pattern": "("})).await.contains("not a regular expression"));
    assert!(refused(&grep, json!({"pattern": "a\nb"})).await.contains("for one line"));
    assert!(refused(&grep, json!({"pattern": "a", "path": "z"})).await.contains("does not exist"));
}

#[tokio::test]
async fn results_are_bounded() {
    let place = Place::new();
    let (grep, glob) = tools(&place);
    place.write("a", "hit\n".repeat(5));
    place.write("b", "hit\n");
    let some = done(&grep, json!({"pattern": "hit", "limit": 3})).await;
    assert!(some.starts_with("a\n1:hit\n2:hit\n3:hit\n(only the first 3"), "{some}");
    let five = done(&grep, json!({"pattern": "hit", "limit": 5})).await;
    assert!(five.contains("5:hit") && five.contains("only the first 5"), "{five}");
    let all = done(&grep, json!({"pattern": "hit", "limit": 6})).await;
    assert!(all.contains("b\n1:hit\n") && !all.contains("only"), "{all}");
    place.write("long", "hit".to_owned() + &"x".repeat(100_000));
    assert!(done(&grep, json!({"pattern": "hit"})).await.len() < 2000);
    place.write("many", format!("hit {}\n", "y".repeat(400)).repeat(900));
    let many = done(&grep, json!({"pattern": "hit", "limit": 1000})).await;
    assert!(many.len() < 50_000, "{}", many.len());
    for number in 0..250 {
        place.write(&format!("n/{number:03}"), "");
    }
    let listed = done(&glob, json!({"pattern": "n/*"})).await;
    assert!(listed.contains("n/199\n(only the first 200"), "{listed}");
}

#[tokio::test]
async fn files_are_listed_by_pattern() {
    let place = project();
    let (_, glob) = tools(&place);
    assert_eq!(done(&glob, json!({"pattern": "**/*.rs"})).await, "a/c.rs\nb.rs\n");
    assert_eq!(done(&glob, json!({"pattern": "*.rs"})).await, "b.rs\n");
    let all = done(&glob, json!({"pattern": "*"})).await;
    assert_eq!(all, ".github/\n.gitignore\na/\nb.rs\nbinary\n");
    assert_eq!(done(&glob, json!({"pattern": "c.*", "path": "a"})).await, "a/c.rs\na/c.txt\n");
    assert!(done(&glob, json!({"pattern": "*.none"})).await.contains("nothing matches"));
    assert!(refused(&glob, json!({"pattern": "/etc/*"})).await.contains("relative"));
    assert!(refused(&glob, json!({"pattern": "a["})).await.contains("not a pattern"));
    assert!(refused(&glob, json!({"pattern": "*", "path": "b.rs"})).await.contains("not a folder"));
    let outside = prepare(&glob, &json!({"pattern": "*", "path": "../.."})).unwrap();
    assert_eq!(outside.plan().access.reads, std::slice::from_ref(&place.root));
    fs::create_dir(place.root.join("home/.ssh")).unwrap();
    fs::write(place.root.join("home/.ssh/id_ed25519"), "").unwrap();
    let home = done(&glob, json!({"pattern": "**/*", "path": "~"})).await;
    assert!(!home.contains("id_ed25519"), "{home}");
}

#[tokio::test]
async fn a_search_that_is_cancelled_says_so() {
    let place = project();
    let (grep, _) = tools(&place);
    let io = CallIo::default();
    io.cancel.cancel();
    let output = prepare(&grep, &json!({"pattern": "fn"})).unwrap().run(io).await;
    assert!(output.all_text().contains("cancelled"), "{}", output.all_text());
}
