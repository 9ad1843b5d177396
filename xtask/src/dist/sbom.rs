//! The SBOM: the crates in the program, in CycloneDX's JSON format, from cargo's metadata.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use toml_edit::DocumentMut;

use super::Release;

/// Describes the program `angelia` and all crates that are compiled into it or run while it is
/// built.
pub(super) fn describe(release: &Release, metadata: &Value, root: &Path) -> Result<String> {
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let document = document(release, metadata, &checksums(&lock)?)?;
    Ok(format!("{document:#}\n"))
}

fn document(
    release: &Release,
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Value> {
    let packages = index(&metadata["packages"])?;
    let nodes = index(&metadata["resolve"]["nodes"])?;
    let own = packages.values().find(|package| package["name"] == "angelia");
    let own = own.context("cargo metadata has no package angelia")?;
    let own_id = own["id"].as_str().context("a package has no id")?;

    let mut seen = BTreeSet::from([own_id]);
    let mut waiting = vec![own_id];
    let mut dependencies = Vec::new();
    while let Some(id) = waiting.pop() {
        let below = contained_crates(nodes.get(id).context("an unresolved package")?);
        let names = below.iter().filter_map(|id| packages.get(id)).map(|it| reference(it));
        let names: Vec<String> = names.collect();
        dependencies.push(json!({ "ref": reference(packages[id]), "dependsOn": names }));
        waiting.extend(below.into_iter().filter(|id| seen.insert(id)));
    }
    dependencies.sort_by_key(|entry| entry["ref"].to_string());
    let components = seen.iter().filter(|id| **id != own_id);
    let components: Vec<Value> =
        components.map(|id| component(packages[*id], "library", checksums)).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component(own, "application", checksums),
            "properties": [{ "name": "angelia:version", "value": release.version }],
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Indexes one of cargo's lists by id.
fn index(list: &Value) -> Result<BTreeMap<&str, &Value>> {
    let list = list.as_array().context("cargo metadata is not complete")?;
    list.iter().map(|entry| Ok((entry["id"].as_str().context("no id")?, entry))).collect()
}

/// Returns the ids of a package's dependencies that are not used only by its tests.
fn contained_crates(node: &Value) -> Vec<&str> {
    let dependencies = node["deps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let contained = dependencies.iter().filter(|dependency| {
        let kinds = dependency["dep_kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
        kinds.iter().any(|kind| kind["kind"] != "dev")
    });
    contained.filter_map(|dependency| dependency["pkg"].as_str()).collect()
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": text("name"),
        "version": text("version"),
        "purl": reference(package),
        // Old crates separate alternatives with a slash, which SPDX does not know.
        "licenses": [{ "expression": text("license").replace('/', " OR ").replace("  ", " ") }],
    });
    if let Some(sum) = checksums.get(&(text("name"), text("version"))) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

/// Returns the package URL, which also identifies a package inside the document.
fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

/// Reads the checksums of all crates, by name and version, from the lock file.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: DocumentMut = lock.parse().context("Cargo.lock")?;
    let packages = lock["package"].as_array_of_tables().context("Cargo.lock has no packages")?;
    let sums = packages.iter().filter_map(|package| {
        let text = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    });
    Ok(sums.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_what_is_compiled_in_with_sums_and_licences() {
        let metadata = json!({
            "packages": [
                { "id": "angelia-id", "name": "angelia", "version": "1.2.3", "license": "MIT" },
                { "id": "ring-id", "name": "ring", "version": "0.1.0", "license": "MIT/Apache-2.0" },
                { "id": "test-id", "name": "only-tests", "version": "9.0.0", "license": "MIT" },
            ],
            "resolve": { "nodes": [
                { "id": "angelia-id", "deps": [
                    { "pkg": "ring-id", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "test-id", "dep_kinds": [{ "kind": "dev" }] },
                ] },
                { "id": "ring-id", "deps": [] },
                { "id": "test-id", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"ring\"\nversion = \"0.1.0\"\nchecksum = \"abc\"\n";
        let release = Release { version: "1.2.3".into(), description: String::new(), time: 0 };
        let document = document(&release, &metadata, &checksums(lock).unwrap()).unwrap();
        assert_eq!(document["metadata"]["component"]["purl"], "pkg:cargo/angelia@1.2.3");
        let expected = json!([{
            "type": "library",
            "bom-ref": "pkg:cargo/ring@0.1.0",
            "name": "ring",
            "version": "0.1.0",
            "purl": "pkg:cargo/ring@0.1.0",
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "hashes": [{ "alg": "SHA-256", "content": "abc" }],
        }]);
        assert_eq!(document["components"], expected);
        let edges = json!([
            { "ref": "pkg:cargo/angelia@1.2.3", "dependsOn": ["pkg:cargo/ring@0.1.0"] },
            { "ref": "pkg:cargo/ring@0.1.0", "dependsOn": [] },
        ]);
        assert_eq!(document["dependencies"], edges);
    }
}
