//! Checks the dependencies between the crates, and that the core names no vendor.

use super::{Problem, SourceFile};

/// Each crate and the workspace crates it may depend on.
const ALLOWED_DEPENDENCIES: [(&str, &[&str]); 7] = [
    ("angelia-core", &[]),
    ("angelia-wire", &[]),
    ("angelia-executors", &["angelia-core", "angelia-wire"]),
    ("angelia-frontends", &["angelia-core", "angelia-wire"]),
    ("angelia-backends", &["angelia-core"]),
    // The fake CLI of the test kit speaks Claude Code's protocol through the executors' library.
    ("angelia-testkit", &["angelia-core", "angelia-wire", "angelia-executors"]),
    (
        "angelia",
        &[
            "angelia-core",
            "angelia-wire",
            "angelia-executors",
            "angelia-frontends",
            "angelia-backends",
        ],
    ),
];

const VENDORS: [&str; 4] = ["claude", "codex", "anthropic", "openai"];

pub(crate) fn check(source: &SourceFile) -> Vec<Problem> {
    if let Some(name) =
        source.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml"))
    {
        return check_direction(name, source);
    }
    if source.path.starts_with("crates/angelia-core/src/") {
        return check_vendors(source);
    }
    Vec::new()
}

fn check_direction(name: &str, source: &SourceFile) -> Vec<Problem> {
    let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(krate, _)| *krate == name) else {
        let message =
            format!("{name} is missing from the table of crates in xtask/src/tidy/crates.rs");
        return vec![Problem::new(&source.path, 1, message)];
    };
    dependencies(&source.text)
        .into_iter()
        .filter(|(_, seen)| seen.starts_with("angelia") && !allowed.contains(seen))
        .map(|(line, seen)| Problem::new(&source.path, line, format!("{name} may not use {seen}")))
        .collect()
}

/// Returns the names under `[dependencies]` and `[build-dependencies]` with their lines.
/// Dev-dependencies are not restricted.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for (number, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
        } else if matches!(section, "[dependencies]" | "[build-dependencies]") {
            let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
            let name = &line[..end.unwrap_or(line.len())];
            if !name.is_empty() {
                found.push((number + 1, name));
            }
        }
    }
    found
}

fn check_vendors(source: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let lower = line.to_lowercase();
        for vendor in VENDORS.iter().filter(|vendor| lower.contains(**vendor)) {
            let message = format!("the core names no vendor: {vendor}");
            problems.push(Problem::new(&source.path, number + 1, message));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let source = SourceFile { path: path.into(), text: text.into() };
        check(&source).into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn siblings_never_see_each_other() {
        let manifest = "[dependencies]\nangelia-core.workspace = true\nserde = \"1\"\n\
                        angelia-backends = { path = \"x\" }\n";
        let found = problems("crates/angelia-executors/Cargo.toml", manifest);
        assert_eq!(found, ["angelia-executors may not use angelia-backends"]);
    }

    #[test]
    fn tests_may_see_the_testkit_and_nothing_else_may() {
        let path = "crates/angelia/Cargo.toml";
        let manifest = "[dev-dependencies]\nangelia-testkit.workspace = true\n";
        assert!(problems(path, manifest).is_empty());
        assert_eq!(problems(path, &manifest.replace("dev-", "")).len(), 1);
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        assert_eq!(problems("crates/angelia-new/Cargo.toml", "").len(), 1);
    }

    #[test]
    fn the_core_names_no_vendor() {
        let path = "crates/angelia-core/src/model/a.rs";
        assert_eq!(problems(path, "//! As Claude does.\n").len(), 1);
        assert!(problems("crates/angelia-executors/src/a.rs", "//! As Claude does.\n").is_empty());
    }
}
