//! Checks the dependency tree from `cargo metadata`: the licences, bans and sources of `deny.toml`,
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
    let list = ["metadata", "--format-version", "1", "--locked"];
    let metadata = output(cargo().args(list))?
        .context("cargo metadata failed; is Cargo.lock up to date? run `cargo check`")?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let rules = fs::read_to_string(crate::root().join("deny.toml"))?;
    let rules = DenyRules::read(&rules)?;
    let mut problems = Vec::new();
    for package in packages {
        problems.extend(rules.problems(package));
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
    banned: Vec<String>,
}

impl DenyRules {
    fn read(text: &str) -> Result<Self> {
        let document: DocumentMut = text.parse().context("deny.toml")?;
        let strings = |table: &str, key: &str, field: Option<&str>| -> Result<Vec<String>> {
            let list = document[table][key].as_array();
            let list = list.with_context(|| format!("deny.toml has no [{table}] {key}"))?;
            let entries = list.iter().map(|entry| match field {
                Some(field) => entry.as_inline_table().and_then(|entry| entry.get(field)?.as_str()),
                None => entry.as_str(),
            });
            let entries = entries.map(|entry| entry.map(str::to_owned));
            entries.collect::<Option<_>>().with_context(|| format!("deny.toml, [{table}] {key}"))
        };
        Ok(Self {
            licences: strings("licenses", "allow", None)?,
            banned: strings("bans", "deny", Some("crate"))?,
        })
    }

    fn problems(&self, package: &Value) -> Vec<String> {
        let name = package["name"].as_str().unwrap_or_default();
        let mut problems = Vec::new();
        if self.banned.iter().any(|banned| banned == name) {
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
        // Lax parsing, because old crates separate alternatives with a slash.
        let expression = spdx::Expression::parse_mode(expression, spdx::ParseMode::LAX)?;
        Ok(expression.evaluate(|requirement| {
            self.licences.iter().any(|allowed| *allowed == requirement.to_string())
        }))
    }
}

/// Returns the dependencies of a workspace member that none of its source files names.
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

/// Reports whether code names the crate: as the first part of a path, in a `use`, or in a macro's
/// attribute.
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
                         [bans]\ndeny = [{ crate = \"openssl\", reason = \"rustls only\" }]\n";

    fn problems(package: &Value) -> Vec<String> {
        DenyRules::read(RULES).unwrap().problems(package)
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
    fn a_dependency_is_used_where_code_names_it() {
        assert!(is_named("use serde_json::Value;", "serde_json"));
        assert!(is_named("let x = serde::Serialize;", "serde"));
        assert!(!is_named("use serde_json::Value;", "serde"));
        assert!(!is_named("// camino::Utf8Path\n", "camino"));
    }
}
