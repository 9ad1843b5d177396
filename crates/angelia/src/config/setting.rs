//! Reads typed settings from the tree. All problems are collected: a value that cannot be read
//! falls back to its default, so that reading goes on. [`settings!`] declares a block once (its
//! keys, types, defaults and descriptions), and generates the reader, the schema, the reference and
//! the file that `config init` writes.

use std::collections::BTreeMap;

use super::{
    node::{Node, NodeEntry, NodeValue, Scalar, ScalarKind},
    problem::{Problem, nearest},
    unsupported,
};

/// One value of the configuration.
pub(crate) trait Setting: Sized {
    /// Describes the expected value, for errors and for the reference.
    fn expects() -> String;

    /// Reads the value; returns `None` after pushing a problem.
    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self>;
}

/// A block of settings with fixed keys.
pub(crate) trait SettingsBlock: Setting + Default {
    const KEYS: &'static [&'static str];

    fn fields() -> Vec<SettingDoc>;

    /// Reads the block with the given defaults instead of its own.
    fn read_over(
        default: Self,
        place: &ValueCursor<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self>;
}

/// A key of a block, as the reference describes it.
#[derive(Debug)]
pub(crate) struct SettingDoc {
    pub(crate) key: &'static str,
    pub(crate) about: String,
    pub(crate) expects: String,
}

/// A node of the tree with its path, while it is read into a type.
#[derive(Clone, Debug)]
pub(crate) struct ValueCursor<'a> {
    pub(crate) node: &'a Node,
    /// The path for messages: `profiles.default.model`.
    pub(crate) path: String,
    /// The path for lookup tables: `profiles.*.model`.
    pub(crate) shape: String,
}

impl<'a> ValueCursor<'a> {
    pub(crate) fn root(node: &'a Node) -> Self {
        Self { node, path: String::new(), shape: String::new() }
    }

    pub(crate) fn new(node: &'a Node, path: &str, shape: &str) -> Self {
        Self { node, path: path.to_owned(), shape: shape.to_owned() }
    }

    fn child(&self, node: &'a Node, key: &str, shape: &str) -> Self {
        Self { node, path: join(&self.path, key), shape: join(&self.shape, shape) }
    }

    pub(crate) fn scalar(&self) -> Option<&'a Scalar> {
        match &self.node.value {
            NodeValue::Scalar(scalar) => Some(scalar),
            NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// Returns a value's text, also of a number; `None` for a null.
    pub(crate) fn text(&self) -> Option<&'a str> {
        self.scalar()
            .filter(|scalar| scalar.kind != ScalarKind::Null)
            .map(|scalar| scalar.text.as_str())
    }

    pub(crate) fn mismatch(&self, expected: &str) -> Problem {
        Problem::mismatch(&self.path, expected, self.node)
    }

    pub(crate) fn problem(&self, what: impl Into<String>) -> Problem {
        Problem::new(&self.node.origin, &self.path, what)
    }

    /// Parses the value from its text, for types that have a textual form.
    pub(crate) fn parse<T>(
        &self,
        problems: &mut Vec<Problem>,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let parsed = self.text().and_then(parse);
        if parsed.is_none() {
            problems.push(self.mismatch(expected));
        }
        parsed
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Reads the keys of a block, then reports the unknown ones.
#[derive(Debug)]
pub(crate) struct Section<'a, 'p> {
    place: &'a ValueCursor<'a>,
    problems: &'p mut Vec<Problem>,
}

impl<'a, 'p> Section<'a, 'p> {
    /// A null counts as an empty block, because all its keys may be commented out.
    pub(crate) fn open(place: &'a ValueCursor<'a>, problems: &'p mut Vec<Problem>) -> Option<Self> {
        if !matches!(place.node.value, NodeValue::Map(_)) && !place.node.is_null() {
            problems.push(place.mismatch("a mapping"));
            return None;
        }
        Some(Self { place, problems })
    }

    pub(crate) fn read<T: Setting>(&mut self, key: &str, default: T) -> T {
        let Some(node) = self.place.node.get(key) else {
            return default;
        };
        let place = self.place.child(node, key, key);
        T::read(&place, self.problems).unwrap_or(default)
    }

    pub(crate) fn close(self, known: &[&str]) {
        for entry in self.place.node.entries() {
            if !known.contains(&entry.key.as_str()) {
                let problem = unknown_key(entry, self.place, known);
                self.problems.push(problem);
            }
        }
    }
}

/// Returns the problem for a key that the block does not have.
pub(crate) fn unknown_key(entry: &NodeEntry, block: &ValueCursor<'_>, known: &[&str]) -> Problem {
    let path = join(&block.path, &entry.key);
    let shape = join(&block.shape, &entry.key);
    if let Some(refusal) = unsupported::refusal(&shape, &path, &entry.origin, "remove it") {
        return refusal;
    }
    let what = match nearest(&entry.key, known.iter().copied()) {
        Some(near) => format!("is not a known key; did you mean `{near}`?"),
        None => format!("is not a known key; known here: {}", known.join(", ")),
    };
    Problem::new(&entry.origin, &path, what)
}

/// Declares a block of settings: `key: Type = default`, each with a sentence that describes it.
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $type:ty = $default:expr, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
        #[schemars(default, deny_unknown_fields)]
        pub(crate) struct $name {
            $( $(#[doc = $doc])+ pub(crate) $key: $type, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $key: $default, )+ }
            }
        }

        impl $crate::config::setting::SettingsBlock for $name {
            const KEYS: &'static [&'static str] = &[$( stringify!($key), )+];

            fn fields() -> Vec<$crate::config::setting::SettingDoc> {
                vec![$( $crate::config::setting::SettingDoc {
                    key: stringify!($key),
                    about: [$( $doc, )+].concat().trim().to_owned(),
                    expects: <$type as $crate::config::setting::Setting>::expects(),
                }, )+]
            }

            fn read_over(
                default: Self,
                place: &$crate::config::setting::ValueCursor<'_>,
                problems: &mut Vec<$crate::config::problem::Problem>,
            ) -> Option<Self> {
                let mut section = $crate::config::setting::Section::open(place, problems)?;
                let this = Self { $( $key: section.read(stringify!($key), default.$key), )+ };
                section.close(Self::KEYS);
                Some(this)
            }
        }

        impl $crate::config::setting::Setting for $name {
            fn expects() -> String {
                "a mapping".to_owned()
            }

            fn read(
                place: &$crate::config::setting::ValueCursor<'_>,
                problems: &mut Vec<$crate::config::problem::Problem>,
            ) -> Option<Self> {
                $crate::config::setting::SettingsBlock::read_over(Self::default(), place, problems)
            }
        }
    };
}
pub(crate) use settings;

impl Setting for bool {
    fn expects() -> String {
        "true or false".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let loose = place.scalar().is_some_and(|scalar| scalar.kind == ScalarKind::Untyped);
        place.parse(problems, &Self::expects(), |text| match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            "1" if loose => Some(true),
            "0" if loose => Some(false),
            _ => None,
        })
    }
}

impl Setting for String {
    fn expects() -> String {
        "text".to_owned()
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        place.parse(problems, &Self::expects(), |text| (!text.is_empty()).then(|| text.to_owned()))
    }
}

impl<T: Setting> Setting for Option<T> {
    fn expects() -> String {
        format!("null, or {}", T::expects())
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        if place.node.is_null() {
            return Some(None);
        }
        T::read(place, problems).map(Some)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn expects() -> String {
        format!("a list, each item {}", T::expects())
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let from_variable;
        let items = match &place.node.value {
            NodeValue::List(items) => items,
            NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Untyped => {
                from_variable = split_list(&scalar.text)
                    .map(|item| Node::untyped(item, place.node.origin.clone()))
                    .collect();
                &from_variable
            }
            NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Null => {
                return Some(Self::new());
            }
            NodeValue::Scalar(_) | NodeValue::Map(_) => {
                problems.push(place.mismatch(&Self::expects()));
                return None;
            }
        };
        let before = problems.len();
        let read = items
            .iter()
            .enumerate()
            .filter_map(|(index, node)| {
                let place = ValueCursor {
                    node,
                    path: format!("{}[{index}]", place.path),
                    shape: format!("{}[]", place.shape),
                };
                T::read(&place, problems)
            })
            .collect();
        (problems.len() == before).then_some(read)
    }
}

/// Splits a list in a variable: commas separate the items, except within parentheses, where they
/// belong to a tool pattern.
fn split_list(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|item| !item.is_empty())
}

/// A key of a map whose names the owner chooses.
pub(crate) trait MapKey: Ord + Sized {
    fn expects() -> &'static str;
    fn parse(text: &str) -> Option<Self>;
}

impl<K: MapKey, T: Setting> Setting for BTreeMap<K, T> {
    fn expects() -> String {
        format!("a mapping of {} to {}", K::expects(), T::expects())
    }

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        if !matches!(place.node.value, NodeValue::Map(_)) && !place.node.is_null() {
            problems.push(place.mismatch(&Self::expects()));
            return None;
        }
        let before = problems.len();
        let mut read = Self::new();
        for entry in place.node.entries() {
            let child = place.child(&entry.node, &entry.key, "*");
            match K::parse(&entry.key) {
                Some(key) => {
                    if let Some(value) = T::read(&child, problems) {
                        read.insert(key, value);
                    }
                }
                None => problems.push(Problem::new(
                    &entry.origin,
                    &child.path,
                    format!("is not a name that can be used here; use {}", K::expects()),
                )),
            }
        }
        (problems.len() == before).then_some(read)
    }
}
