//! Configuration problems, reported so that the owner can fix them: the location, the problem, and
//! the fix.

use std::fmt;

use super::node::{Node, NodeValue, ScalarKind, ValueOrigin};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    origin: ValueOrigin,
    /// The key's full path. Empty if the line itself is the problem.
    path: String,
    message: String,
}

impl Problem {
    pub(crate) fn new(origin: &ValueOrigin, path: &str, what: impl Into<String>) -> Self {
        Self { origin: origin.clone(), path: path.to_owned(), message: what.into() }
    }

    /// Returns a problem with a line or a variable rather than with a key.
    pub(crate) fn at_origin(origin: ValueOrigin, what: impl Into<String>) -> Self {
        Self { origin, path: String::new(), message: what.into() }
    }

    /// Returns the line in the file, for sorting. Problems from elsewhere go last.
    pub(crate) const fn line(&self) -> u64 {
        match &self.origin {
            ValueOrigin::File { line, .. } => *line,
            ValueOrigin::Default | ValueOrigin::Variable(_) | ValueOrigin::Flag(_) => u64::MAX,
        }
    }

    /// Returns a problem with a file as a whole.
    pub(crate) fn file(name: &str, what: impl Into<String>) -> Self {
        Self { origin: ValueOrigin::Default, path: name.to_owned(), message: what.into() }
    }

    /// Returns a problem with a value of the wrong kind.
    pub(crate) fn mismatch(path: &str, expected: &str, node: &Node) -> Self {
        Self::new(&node.origin, path, format!("expects {expected}, not {}", describe(node)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return write!(f, "{} {}", self.origin, self.message);
        }
        match &self.origin {
            ValueOrigin::Default => write!(f, "`{}` {}", self.path, self.message),
            origin => write!(f, "{origin}: `{}` {}", self.path, self.message),
        }
    }
}

/// All problems in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration is not valid:\n{}\ncorrect it, then try `angelia config check`", format_lines(.0))]
pub(crate) struct ConfigErrors(pub(crate) Vec<Problem>);

impl From<Problem> for ConfigErrors {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

fn format_lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
    lines.join("\n")
}

fn describe(node: &Node) -> String {
    const MAX_VALUE_CHARS: usize = 40;
    match &node.value {
        NodeValue::List(_) => "a list".to_owned(),
        NodeValue::Map(_) => "a mapping".to_owned(),
        NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Null => "null".to_owned(),
        NodeValue::Scalar(scalar) if scalar.text.is_empty() => "an empty text".to_owned(),
        NodeValue::Scalar(scalar) => {
            let visible = |c: char| if c.is_control() { ' ' } else { c };
            let shown: String = scalar.text.chars().map(visible).take(MAX_VALUE_CHARS).collect();
            let more = scalar.text.chars().nth(MAX_VALUE_CHARS).map_or("", |_| "…");
            format!("`{shown}{more}`")
        }
    }
}

/// Returns the known name that is most similar to a mistyped one, if any is similar enough.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const MIN_SIMILARITY: f64 = 0.6;
    known
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= MIN_SIMILARITY)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
