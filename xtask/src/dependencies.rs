//! Checks the dependency tree from `cargo metadata`: the licences, bans and sources in `deny.toml`,
//! and dependencies that no source file uses.
//!
//! `cargo deny check` reads the same file and checks more, but building it takes longer than
//! running all our tests, so `cargo xtask test` does without it.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use toml_edit::DocumentMut;

use crate::program::{cargo, output};

/// The only allowed source of crates outside the workspace.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check() -> Result<()> {
    let list = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    let metadata = output(cargo().args(list))?
        .context("cargo metadata failed; is Cargo.lock up to date? run `cargo check`")?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let rules = fs::read_to_string(crate::root().join("deny.toml"))?;
    let rules = DenyRules::read(&rules)?;
    let mut problems = Vec::new();
    for package in packages {
        problems.extend(rules.problems(package, &dependents(&metadata, package)));
        // Only a workspace member has no source.
        if package["source"].is_null() {
            problems.extend(unused_dependencies(package)?);
        }
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    ensure!(problems.is_empty(), "{} problems", problems.len());
    eprintln!("{} packages", packages.len());
    Ok(())
}

/// The parts of `deny.toml` that can be checked without cargo-deny.
struct DenyRules {
    licences: Vec<String>,
    banned: Vec<BannedCrate>,
}

struct BannedCrate {
    name: String,
    /// The crates that may use it nevertheless.
    wrappers: Vec<String>,
}

impl BannedCrate {
    fn read(entry: &toml_edit::Value) -> Option<Self> {
        let entry = entry.as_inline_table()?;
        let name = entry.get("crate")?.as_str()?.to_owned();
        let wrappers = entry.get("wrappers").and_then(toml_edit::Value::as_array);
        let wrappers = wrappers.into_iter().flatten().filter_map(toml_edit::Value::as_str);
        Some(Self { name, wrappers: wrappers.map(str::to_owned).collect() })
    }

    fn bans(&self, name: &str, dependents: &[&str]) -> bool {
        let is_wrapped = |dependent: &&str| self.wrappers.iter().any(|one| one == dependent);
        self.name == name && (self.wrappers.is_empty() || !dependents.iter().all(is_wrapped))
    }
}

impl DenyRules {
    fn read(text: &str) -> Result<Self> {
        let document: DocumentMut = text.parse().context("deny.toml")?;
        let list = |table: &str, key: &str| {
            let list = document[table][key].as_array();
            list.with_context(|| format!("deny.toml has no [{table}] {key}"))
        };
        let licences = list("licenses", "allow")?.iter();
        let licences = licences.map(|entry| entry.as_str().map(str::to_owned));
        let banned = list("bans", "deny")?.iter().map(BannedCrate::read);
        Ok(Self {
            licences: licences.collect::<Option<_>>().context("deny.toml, [licenses] allow")?,
            banned: banned.collect::<Option<_>>().context("deny.toml, [bans] deny")?,
        })
    }

    fn problems(&self, package: &Value, dependents: &[&str]) -> Vec<String> {
        let name = package["name"].as_str().unwrap_or_default();
        let mut problems = Vec::new();
        if self.banned.iter().any(|banned| banned.bans(name, dependents)) {
            problems.push(format!("{name} is banned by deny.toml"));
        }
        let source = package["source"].as_str();
        if let Some(source) = source.filter(|source| *source != REGISTRY) {
            problems.push(format!("{name} comes from {source}, not from the registry"));
        }
        match self.licence_is_allowed(package["license"].as_str()) {
            Ok(true) => {}
            Ok(false) => {
                problems.push(format!("{name}: no allowed licence in {}", package["license"]));
            }
            Err(error) => problems.push(format!("{name}: {error:#}")),
        }
        problems
    }

    fn licence_is_allowed(&self, expression: Option<&str>) -> Result<bool> {
        let Some(expression) = expression else { bail!("it states no licence") };
        // Use lax parsing, because old crates separate alternatives with a slash.
        let expression = spdx::Expression::parse_mode(expression, spdx::ParseMode::LAX)?;
        Ok(expression.evaluate(|requirement| {
            self.licences.iter().any(|allowed| *allowed == requirement.to_string())
        }))
    }
}

/// Returns the names of the packages that depend on this one.
fn dependents<'a>(metadata: &'a Value, package: &Value) -> Vec<&'a str> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let users = nodes.filter(|node| {
        node["dependencies"].as_array().is_some_and(|list| list.contains(&package["id"]))
    });
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    users
        .filter_map(|user| packages().find(|one| one["id"] == user["id"])?["name"].as_str())
        .collect()
}

/// Returns the dependencies of a workspace member that none of its source files mentions.
fn unused_dependencies(package: &Value) -> Result<Vec<String>> {
    let name = package["name"].as_str().unwrap_or_default();
    let manifest = package["manifest_path"].as_str().context("a package has no manifest")?;
    let folder = Path::new(manifest).parent().context("a manifest has no folder")?;
    let mut text = String::new();
    for part in ["src", "tests", "benches"] {
        read_sources(&folder.join(part), &mut text)?;
    }
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = dependencies.iter().filter_map(|dependency| {
        dependency["rename"].as_str().or_else(|| dependency["name"].as_str())
    });
    let unused = names.filter(|dependency| !is_named(&text, &dependency.replace('-', "_")));
    Ok(unused.map(|dependency| format!("{name} does not use {dependency}")).collect())
}

fn read_sources(path: &Path, text: &mut String) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            read_sources(&entry?.path(), text)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        text.push_str(&fs::read_to_string(path)?);
    }
    Ok(())
}

/// Returns whether code mentions the crate: as the first part of a path, in a `use`, or in a
/// macro's attribute.
fn is_named(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = &text[at + name.len()..];
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        !before.is_some_and(is_word)
            && (after.starts_with("::") || after.starts_with(" as ") || after.starts_with(';'))
            && !line.trim_start().starts_with("//")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RULES: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\"]\n\
                         [bans]\ndeny = [{ crate = \"openssl\", reason = \"rustls only\" },\n\
                         { crate = \"macro\", wrappers = [\"kept\"], reason = \"x\" }]\n";

    fn problems(package: &Value) -> Vec<String> {
        DenyRules::read(RULES).unwrap().problems(package, &[])
    }

    #[test]
    fn one_allowed_licence_of_several_is_enough() {
        for licence in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "MIT AND Apache-2.0"] {
            let package = json!({"name": "a", "source": REGISTRY, "license": licence});
            assert_eq!(problems(&package), [] as [&str; 0], "{licence}");
        }
        for licence in [json!("GPL-3.0"), json!("MIT AND GPL-3.0"), json!(null)] {
            let package = json!({"name": "a", "source": REGISTRY, "license": licence});
            assert_eq!(problems(&package).len(), 1, "{licence}");
        }
    }

    #[test]
    fn bans_and_sources_are_checked() {
        let package = json!({"name": "openssl", "source": REGISTRY, "license": "MIT"});
        assert_eq!(problems(&package), ["openssl is banned by deny.toml"]);
        let package = json!({"name": "a", "source": "git+ssh://x", "license": "MIT"});
        assert_eq!(problems(&package), ["a comes from git+ssh://x, not from the registry"]);
    }

    #[test]
    fn a_ban_spares_the_crates_that_it_names() {
        let rules = DenyRules::read(RULES).unwrap();
        let package = json!({"name": "macro", "source": REGISTRY, "license": "MIT"});
        assert_eq!(rules.problems(&package, &["kept"]), [] as [&str; 0]);
        assert_eq!(rules.problems(&package, &["kept", "ours"]).len(), 1);
        let ours = json!({"id": "ours 1", "name": "ours"});
        let metadata = json!({"packages": [{"id": "a", "name": "macro"}, ours],
            "resolve": {"nodes": [{"id": "ours 1", "dependencies": ["a"]}, {"id": "a", "dependencies": []}]}});
        assert_eq!(dependents(&metadata, &metadata["packages"][0]), ["ours"]);
    }

    #[test]
    fn a_dependency_is_used_where_code_names_it() {
        assert!(is_named("use serde_json::Value;", "serde_json"));
        assert!(is_named("let x = serde::Serialize;", "serde"));
        assert!(!is_named("use serde_json::Value;", "serde"));
        assert!(!is_named("// camino::Utf8Path\n", "camino"));
    }
}
