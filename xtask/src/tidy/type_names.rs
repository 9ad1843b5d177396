//! Checks that a `pub` or `pub(…)` type name is defined in at most two modules, so that a search
//! for the name finds the type.

use std::collections::BTreeMap;

use super::{Problem, SourceFile};

const MAX_MODULES: usize = 2;
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Problem> {
    let mut modules: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".rs")) {
        for (index, line) in source.text.lines().enumerate() {
            let Some(name) = visible_type(line) else {
                continue;
            };
            let places = modules.entry(name).or_default();
            // Two definitions in one file are `cfg` variants of one type.
            if places.last().is_none_or(|(path, _)| *path != source.path) {
                places.push((&source.path, index + 1));
            }
        }
    }
    modules.retain(|_, places| places.len() > MAX_MODULES);
    let problems = modules.iter().flat_map(|(name, places)| {
        let count = places.len();
        let message =
            format!("`{name}` names a type in {count} modules; {MAX_MODULES} may share it");
        places.iter().map(move |(path, line)| Problem::new(path, *line, message.as_str()))
    });
    problems.collect()
}

/// Returns the name of the type that a line defines for other modules.
fn visible_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let (keyword, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (KEYWORDS.contains(&keyword) && end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_third_module_may_not_use_a_name() {
        let text = "pub struct Message;\n";
        let two = [source("a.rs", text), source("b.rs", "pub(crate) enum Message {\n")];
        assert_eq!(check(&two), []);
        let [a, b] = two;
        let third = source("c.rs", "    pub(in crate::http) type Message<'a> = &'a str;\n");
        let problems = check(&[a, b, third]);
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["a.rs", "b.rs", "c.rs"]);
    }

    #[test]
    fn private_types_and_variants_of_one_file_are_free() {
        let private = "struct Step;\n    type Output = u8;\n";
        let sources = ["a.rs", "b.rs", "c.rs"].map(|path| source(path, private));
        assert_eq!(check(&sources), []);
        let variants = source("a.rs", &"pub struct Handle;\n".repeat(4));
        assert_eq!(check(&[variants]), []);
    }

    #[test]
    fn only_definitions_are_read() {
        assert_eq!(visible_type("pub fn message() {"), None);
        assert_eq!(visible_type("pub use a::Message;"), None);
        assert_eq!(visible_type("pub trait Store: Send {"), Some("Store"));
    }
}
