//! Builds the documentation as a book, with mdBook, into `target/book/html`.
//!
//! The pages keep their relative locations, so every link works both in the checkout and in the
//! book. The table of contents is the list in `docs/README.md`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};

use crate::program::{cargo, command, succeed};

/// The version built into `target/tools`.
const MDBOOK_VERSION: &str = "0.5.4";

const CONFIGURATION: &str = "\
[book]
title = \"Angelia\"
language = \"en\"

[build]
build-dir = \"html\"
create-missing = false

[output.html]
no-section-label = true
";

/// The folders with pages and with the files that they link to.
const FOLDERS: [&str; 2] = ["docs", "examples"];

/// Pages at the root of the checkout; `README.md` is the first page of the book.
const ROOT_PAGES: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];

pub(crate) fn run() -> Result<ExitCode> {
    build()?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the book, and fails if one of its links is broken.
pub(crate) fn build() -> Result<()> {
    let root = crate::root();
    let book = root.join("target/book");
    if book.exists() {
        fs::remove_dir_all(&book).context("cannot remove the last book")?;
    }
    let pages = book.join("src");
    for folder in FOLDERS {
        copy_folder(&root.join(folder), &pages.join(folder))?;
    }
    for name in ROOT_PAGES {
        fs::copy(root.join(name), pages.join(name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    let list = fs::read_to_string(root.join("docs/README.md"))?;
    fs::write(pages.join("SUMMARY.md"), summary(&list, &|folder| page_titles(&root, folder)))?;
    fs::write(book.join("book.toml"), CONFIGURATION)?;
    succeed(command(mdbook(&root)?).arg("build").arg(&book))?;
    let html = book.join("html");
    let broken = broken_links(&html)?;
    ensure!(broken.is_empty(), "links of the book that lead nowhere:\n{}", broken.join("\n"));
    eprintln!("the book is in {}", html.strip_prefix(&root).unwrap_or(&html).display());
    Ok(())
}

/// Returns mdBook's program, building it the first time.
fn mdbook(root: &Path) -> Result<PathBuf> {
    let tools = root.join("target/tools");
    let program = tools.join("bin/mdbook");
    if !program.is_file() {
        eprintln!("building mdBook into target/tools, once");
        let install = ["install", "mdbook", "--locked", "--version", MDBOOK_VERSION];
        let features = ["--no-default-features", "--features", "search", "--root"];
        succeed(cargo().args(install).args(features).arg(&tools))?;
    }
    Ok(program)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// A page in a folder: its path relative to `docs/`, and its title.
type TitledPage = (String, String);

/// Returns mdBook's table of contents for the list in `docs/README.md`. A link to a folder becomes
/// one chapter per page.
fn summary(list: &str, pages_of: &dyn Fn(&str) -> Vec<TitledPage>) -> String {
    let mut summary = String::from("# Summary\n\n[Angelia](README.md)\n");
    for line in list.lines() {
        if let Some(group) = line.strip_prefix("**").and_then(|line| line.strip_suffix("**")) {
            summary.push_str(&format!("\n# {group}\n\n"));
        } else if let Some((title, target)) = first_link(line) {
            let target = Path::new("docs").join(target);
            // mdBook does not understand `..`, and the only folder above `docs` is the root.
            let target = target.to_string_lossy().replace("docs/../", "");
            if target.ends_with(".md") {
                summary.push_str(&format!("- [{title}]({target})\n"));
            } else {
                summary.push_str(&format!("- [{title}]()\n"));
                for (page, title) in pages_of(&target) {
                    summary.push_str(&format!("  - [{title}]({page})\n"));
                }
            }
        }
    }
    summary
}

/// Returns the title and target of the first link in a list item.
fn first_link(line: &str) -> Option<(&str, &str)> {
    let (title, rest) = line.strip_prefix("- [")?.split_once("](")?;
    Some((title, rest.split_once(')')?.0))
}

/// Returns the pages in a folder, sorted by name, each with its first heading.
fn page_titles(root: &Path, folder: &str) -> Vec<TitledPage> {
    let names = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let mut pages: Vec<TitledPage> = names
        .filter_map(|entry| {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            let text = fs::read_to_string(entry.path()).ok()?;
            let title = text.lines().next()?.strip_prefix("# ")?.to_owned();
            path.ends_with(".md").then_some((path, title))
        })
        .collect();
    pages.sort();
    pages
}

/// Returns every relative link in the built pages whose target does not exist.
fn broken_links(html: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let mut folders = vec![html.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let text = fs::read_to_string(&path)?;
                let missing = relative_links(&text).filter(|link| !folder.join(link).exists());
                let page = path.strip_prefix(html).unwrap_or(&path).display().to_string();
                broken.extend(missing.map(|link| format!("{page}: {link}")));
            }
        }
    }
    broken.sort();
    broken.dedup();
    Ok(broken)
}

fn relative_links(html: &str) -> impl Iterator<Item = &str> {
    let targets = html.split(" href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let targets = targets.filter_map(|target| target.split('#').next());
    targets.filter(|target| !target.is_empty() && !target.contains(':') && !target.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_pages_becomes_the_table_of_contents() {
        let list = "# Documentation\n\n**Start**\n\n- [Install](install.md): how\n\n**Internals**\n\n\
                    - [Security](../SECURITY.md)\n- [Records](design), and [more](x.md)\n";
        let pages = |folder: &str| vec![(format!("{folder}/1.md"), "The shape".to_owned())];
        let expected = "# Summary\n\n[Angelia](README.md)\n\n# Start\n\n- [Install](docs/install.md)\n\n\
                        # Internals\n\n- [Security](SECURITY.md)\n- [Records]()\n  \
                        - [The shape](docs/design/1.md)\n";
        assert_eq!(summary(list, &pages), expected);
    }

    #[test]
    fn only_links_inside_the_book_are_checked() {
        let html = r##"<a href="a.html#b"></a><a href="#c"></a><a href="https://d"></a>"##;
        assert_eq!(relative_links(html).collect::<Vec<_>>(), ["a.html"]);
    }
}
