//! Checks that `docs/README.md`, from which the book takes its table of contents, lists every page.

use super::{Problem, SourceFile};

const LIST: &str = "docs/README.md";

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Problem> {
    let Some(list) = sources.iter().find(|source| source.path == LIST) else {
        return vec![Problem::new(LIST, 1, "the file is missing")];
    };
    let pages = sources.iter().filter_map(|source| source.path.strip_prefix("docs/"));
    let pages = pages.filter(|page| page.ends_with(".md") && *page != "README.md");
    let unlisted = pages.filter(|page| {
        // A link to a folder stands for all of its pages.
        let folder = page.split_once('/').map_or(*page, |(folder, _)| folder);
        ![*page, folder].iter().any(|target| list.text.contains(&format!("]({target})")))
    });
    unlisted
        .map(|page| Problem::new(LIST, 1, format!("the page {page} is not in the list")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_in_the_list_by_itself_or_with_its_folder() {
        let source = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let sources = [
            source(LIST, "- [A](a.md)\n- [Records](design)"),
            source("docs/a.md", ""),
            source("docs/b.md", ""),
            source("docs/design/0001.md", ""),
        ];
        let messages: Vec<_> = check(&sources).into_iter().map(|problem| problem.message).collect();
        assert_eq!(messages, ["the page b.md is not in the list"]);
    }
}
