//! Reads typed settings from the tree. All problems are collected: a value that cannot be read
//! falls back to its default, so that reading continues. [`settings!`] declares a block once (its
//! keys, types, defaults and descriptions), and generates the reader, the schema, the reference and
//! the file that `config init` writes.

use std::{cell::RefCell, collections::BTreeMap};

use super::{
    node::{Node, NodeEntry, NodeValue, Scalar, ScalarKind},
    problem::{Problem, nearest},
    unsupported,
};

/// A configuration value.
pub(crate) trait Setting: Sized {
    /// Describes the expected value, for errors and for the reference.
    fn expects() -> String;

    /// Reads the value. Returns `None` after reporting a problem.
    fn read(place: &ValueCursor<'_>) -> Option<Self>;
}

/// A value parsed from its text, or a key in a map whose names the owner chooses.
pub(crate) trait TextSetting: Sized {
    const EXPECTS: &'static str;

    fn parse(text: &str) -> Option<Self>;
}

impl<T: TextSetting> Setting for T {
    fn expects() -> String {
        T::EXPECTS.to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        place.text().and_then(T::parse).or_else(|| place.mismatch(T::EXPECTS))
    }
}

/// A block of settings with fixed keys.
pub(crate) trait SettingsBlock: Setting + Default {
    const KEYS: &'static [&'static str];

    fn fields() -> Vec<SettingDoc>;

    /// Copies each value of `new` that differs and whose key `accept` accepts.
    fn take_changes(&mut self, new: &Self, accept: &mut dyn FnMut(&'static str) -> bool);

    /// Reads the block with the given defaults instead of its own.
    fn read_over(default: Self, place: &ValueCursor<'_>) -> Option<Self>;
}

/// A key of a block, as described in the reference.
#[derive(Debug)]
pub(crate) struct SettingDoc {
    pub(crate) key: &'static str,
    pub(crate) about: String,
    pub(crate) expects: String,
}

/// A node of the tree with its path, while it is being read into a type.
#[derive(Clone, Debug)]
pub(crate) struct ValueCursor<'a> {
    pub(crate) node: &'a Node,
    /// The path for messages: `profiles.default.model`.
    pub(crate) path: String,
    /// The path for lookup tables: `profiles.*.model`.
    pub(crate) shape: String,
    problems: &'a RefCell<Vec<Problem>>,
}

impl<'a> ValueCursor<'a> {
    pub(crate) fn root(node: &'a Node, problems: &'a RefCell<Vec<Problem>>) -> Self {
        Self { node, path: String::new(), shape: String::new(), problems }
    }

    /// Returns a cursor for a part of this block that is read like a profile.
    pub(crate) fn as_profile<'b>(&'b self, node: &'b Node) -> ValueCursor<'b> {
        ValueCursor { node, shape: "profiles.*".to_owned(), ..self.clone() }
    }

    fn child(&self, node: &'a Node, key: &str, shape: &str) -> Self {
        let (path, shape) = (join(&self.path, key), join(&self.shape, shape));
        Self { node, path, shape, problems: self.problems }
    }

    /// Returns a value's text, even of a number; `None` for a null.
    pub(crate) fn text(&self) -> Option<&'a str> {
        match &self.node.value {
            NodeValue::Scalar(Scalar { kind, text }) if *kind != ScalarKind::Null => Some(text),
            NodeValue::Scalar(_) | NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// Returns whether the value comes from a variable or a flag.
    pub(crate) fn is_untyped(&self) -> bool {
        matches!(&self.node.value, NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Untyped)
    }

    /// Returns whether the value can be read as a list, which a variable separates with commas.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.value, NodeValue::List(_)) || self.is_untyped()
    }

    /// Reports that the value does not have the form expected by the key.
    pub(crate) fn mismatch<T>(&self, expected: &str) -> Option<T> {
        self.report(Problem::mismatch(&self.path, expected, self.node))
    }

    /// Reports a problem with the value.
    pub(crate) fn reject<T>(&self, message: &str) -> Option<T> {
        self.report(Problem::new(&self.node.origin, &self.path, message))
    }

    pub(crate) fn report<T>(&self, problem: Problem) -> Option<T> {
        self.problems.borrow_mut().push(problem);
        None
    }

    /// Returns the value that `read` builds, unless a problem was reported about any part of it.
    fn all_or_none<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let before = self.problems.borrow().len();
        let value = read();
        (self.problems.borrow().len() == before).then_some(value)
    }

    /// Reports a problem unless the value is a mapping. A null counts as an empty mapping, because
    /// all its keys may be commented out.
    pub(crate) fn require_map(&self, expected: &str) -> Option<()> {
        let fits = matches!(self.node.value, NodeValue::Map(_)) || self.node.is_null();
        if fits { Some(()) } else { self.mismatch(expected) }
    }

    /// Reads a key of a block.
    pub(crate) fn read_key<T: Setting>(&self, key: &str, default: T) -> T {
        let Some(node) = self.node.get(key) else { return default };
        T::read(&self.child(node, key, key)).unwrap_or(default)
    }

    /// Reads an entry of a block with mutually exclusive keys.
    pub(crate) fn read_entry<T: Setting>(&self, entry: &'a NodeEntry) -> Option<T> {
        T::read(&self.child(&entry.node, &entry.key, &entry.key))
    }

    pub(crate) fn report_unknown_keys(&self, known: &[&str]) {
        for entry in self.node.entries() {
            if !known.contains(&entry.key.as_str()) {
                self.report_unknown_key(entry, known);
            }
        }
    }

    pub(crate) fn report_unknown_key(&self, entry: &NodeEntry, known: &[&str]) {
        let unknown = self.child(&entry.node, &entry.key, &entry.key);
        let refusal = unsupported::refusal(&unknown.shape, &unknown.path, &entry.origin);
        let problem = refusal.unwrap_or_else(|| {
            let message = match nearest(&entry.key, known.iter().copied()) {
                Some(near) => format!("is not a known key; did you mean `{near}`?"),
                None => format!("is not a known key; known here: {}", known.join(", ")),
            };
            Problem::new(&entry.origin, &unknown.path, message)
        });
        self.problems.borrow_mut().push(problem);
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
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

            fn take_changes(
                &mut self,
                new: &Self,
                accept: &mut dyn FnMut(&'static str) -> bool,
            ) {
                $( if self.$key != new.$key && accept(stringify!($key)) {
                    self.$key.clone_from(&new.$key);
                } )+
            }

            fn read_over(
                default: Self,
                place: &$crate::config::setting::ValueCursor<'_>,
            ) -> Option<Self> {
                place.require_map("a mapping")?;
                let this = Self { $( $key: place.read_key(stringify!($key), default.$key), )+ };
                place.report_unknown_keys(Self::KEYS);
                Some(this)
            }
        }

        impl $crate::config::setting::Setting for $name {
            fn expects() -> String {
                "a mapping".to_owned()
            }

            fn read(place: &$crate::config::setting::ValueCursor<'_>) -> Option<Self> {
                $crate::config::setting::SettingsBlock::read_over(Self::default(), place)
            }
        }
    };
}
pub(crate) use settings;

impl Setting for bool {
    fn expects() -> String {
        "true or false".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let text = place.text().unwrap_or_default().to_ascii_lowercase();
        match text.as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            "1" if place.is_untyped() => Some(true),
            "0" if place.is_untyped() => Some(false),
            _ => place.mismatch(&Self::expects()),
        }
    }
}

impl TextSetting for String {
    const EXPECTS: &'static str = "text";

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }
}

impl<T: Setting> Setting for Option<T> {
    fn expects() -> String {
        format!("null, or {}", T::expects())
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        if place.node.is_null() {
            return Some(None);
        }
        T::read(place).map(Some)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn expects() -> String {
        format!("a list, each item {}", T::expects())
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let from_variable: Vec<Node>;
        let items = match &place.node.value {
            NodeValue::List(items) => items,
            NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Untyped => {
                let origin = &place.node.origin;
                let items = split_list(&scalar.text);
                from_variable = items.map(|item| Node::untyped(item, origin.clone())).collect();
                &from_variable
            }
            NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Null => {
                return Some(Self::new());
            }
            NodeValue::Scalar(_) | NodeValue::Map(_) => return place.mismatch(&Self::expects()),
        };
        let read_item = |(index, node)| {
            let path = format!("{}[{index}]", place.path);
            let shape = format!("{}[]", place.shape);
            T::read(&ValueCursor { node, path, shape, problems: place.problems })
        };
        place.all_or_none(|| items.iter().enumerate().filter_map(read_item).collect())
    }
}

/// Splits a list in a variable. Commas separate the items, except within parentheses, where they
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

impl<K: TextSetting + Ord, T: Setting> Setting for BTreeMap<K, T> {
    fn expects() -> String {
        format!("a mapping of {} to {}", K::EXPECTS, T::expects())
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        place.require_map(&Self::expects())?;
        let read_entry = |entry: &NodeEntry| {
            let child = place.child(&entry.node, &entry.key, "*");
            let Some(key) = K::parse(&entry.key) else {
                let message = format!("is not a name that can be used here; use {}", K::EXPECTS);
                return place.report(Problem::new(&entry.origin, &child.path, message));
            };
            Some((key, T::read(&child)?))
        };
        place.all_or_none(|| place.node.entries().iter().filter_map(read_entry).collect())
    }
}
