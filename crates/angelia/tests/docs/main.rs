//! Every `console` block of the README and of the pages in `docs/` works as it is printed.
//!
//! - [`page`]: what a page tells its reader to do; pure.
//! - [`reader`]: a machine on which a page is followed, with the demo agent behind every model.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod page;
mod reader;

use std::fs;

use angelia_testkit::programs::workspace_root;

use crate::{
    page::{Page, Step},
    reader::Reader,
};

/// The number of blocks of all pages that may be left out.
const MAX_SKIPPED: usize = 5;

const RECIPES: &str = "docs/recipes";

fn pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned()];
    for folder in ["docs", RECIPES] {
        let entries = fs::read_dir(workspace_root().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let pages = paths.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
        names.extend(pages.map(|path| format!("{folder}/{}", path.file_name().unwrap().display())));
    }
    names.sort();
    names
        .into_iter()
        .map(|name| Page::parse(&name, &fs::read_to_string(workspace_root().join(&name)).unwrap()))
        .collect()
}

/// Follows every page for which `is_meant` returns true.
fn follow_pages(is_meant: impl Fn(&str) -> bool) {
    let mut pages = pages();
    pages.retain(|page| {
        is_meant(&page.name) && page.steps.iter().any(|step| matches!(step, Step::Command { .. }))
    });
    assert!(pages.len() > 3, "{pages:#?}");
    let failures = pages.iter().filter_map(|page| Reader::new().follow(page).err());
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn real_what_the_pages_print_works() {
    follow_pages(|name| !name.starts_with(RECIPES));
}

#[test]
fn real_what_the_recipes_print_works() {
    follow_pages(|name| name.starts_with(RECIPES));
}

#[test]
fn few_blocks_are_left_out_and_each_with_a_reason() {
    let pages = pages();
    let skipped: Vec<(&str, &Step)> = pages
        .iter()
        .flat_map(|page| page.steps.iter().map(|step| (page.name.as_str(), step)))
        .filter(|(_, step)| matches!(step, Step::Skipped { .. }))
        .collect();
    assert!(skipped.len() <= MAX_SKIPPED, "{skipped:#?}");
    for (name, step) in skipped {
        let Step::Skipped { reason, .. } = step else { continue };
        assert!(!reason.is_empty(), "{name}: write `console no-run: REASON`");
    }
}
