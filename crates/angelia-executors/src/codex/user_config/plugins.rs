//! Finds the installed plugins from the vendor.
//!
//! Codex keeps an installed plugin at `plugins/cache/MARKETPLACE/NAME/VERSION`, and treats it as
//! installed only while its configuration names it.

use std::{fs, io, path::Path};

/// The prefix of every marketplace that the vendor maintains.
const VENDOR_PREFIX: &str = "openai-";

/// Returns the ids of the vendor's curated plugins, sorted. `home` is Codex's home folder.
pub fn list_curated(home: &Path) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    for marketplace in list_folders(&home.join("plugins/cache"))? {
        if !(marketplace.starts_with(VENDOR_PREFIX) && marketplace.contains("curated")) {
            continue;
        }
        let place = home.join("plugins/cache").join(&marketplace);
        for name in list_folders(&place)? {
            let versions = list_folders(&place.join(&name))?;
            let is_whole = |version: &String| {
                let manifest = ".codex-plugin/plugin.json";
                place.join(&name).join(version).join(manifest).is_file()
            };
            if is_valid_id(&name) && is_valid_id(&marketplace) && versions.iter().any(is_whole) {
                ids.push(format!("{name}@{marketplace}"));
            }
        }
    }
    ids.sort();
    Ok(ids)
}

/// Reports whether Codex allows this name for a plugin or a marketplace.
fn is_valid_id(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '~');
    !name.is_empty() && name.chars().all(fits)
}

fn list_folders(path: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let (true, Ok(name)) = (entry.path().is_dir(), entry.file_name().into_string()) {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_plugins_of_the_vendors_own_places() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(list_curated(home.path()).unwrap(), Vec::<String>::new());
        for (plugin, is_whole) in [
            ("openai-curated/notion/1.0.0", true),
            ("openai-curated/half/1.0.0", false),
            ("openai-curated/bad name/1.0.0", true),
            ("openai-curated-remote/slack/2", true),
            ("openai-bundled/browser/1", true),
            ("mine/hello/1.0.0", true),
        ] {
            let folder = home.path().join("plugins/cache").join(plugin).join(".codex-plugin");
            fs::create_dir_all(&folder).unwrap();
            if is_whole {
                fs::write(folder.join("plugin.json"), "{}").unwrap();
            }
        }
        assert_eq!(
            list_curated(home.path()).unwrap(),
            ["notion@openai-curated", "slack@openai-curated-remote"]
        );
        let blocked = home.path().join("file");
        fs::create_dir_all(&blocked).unwrap();
        fs::write(blocked.join("plugins"), "").unwrap();
        assert!(list_curated(&blocked).is_err(), "said, not taken for none");
    }
}
