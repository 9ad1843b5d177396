//! Configuration problems, reported so that the owner can fix them: where, what, and what to do.

use std::fmt;

use super::node::{Node, Origin, ScalarKind, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    origin: Origin,
    /// The key's full path; empty when the line itself is the problem.
    path: String,
    what: String,
}

impl Problem {
    pub(crate) fn new(origin: &Origin, path: &str, what: impl Into<String>) -> Self {
        Self { origin: origin.clone(), path: path.to_owned(), what: what.into() }
    }

    /// A problem with a line or a variable rather than with a key.
    pub(crate) fn whole(origin: Origin, what: impl Into<String>) -> Self {
        Self { origin, path: String::new(), what: what.into() }
    }

    /// Returns the line in the file, for sorting; a problem from elsewhere goes last.
    pub(crate) const fn line(&self) -> u64 {
        match &self.origin {
            Origin::File { line, .. } => *line,
            Origin::Default | Origin::Variable(_) | Origin::Flag(_) => u64::MAX,
        }
    }

    /// A problem with a file as a whole.
    pub(crate) fn file(name: &str, what: impl Into<String>) -> Self {
        Self { origin: Origin::Default, path: name.to_owned(), what: what.into() }
    }

    /// A value of the wrong kind.
    pub(crate) fn mismatch(path: &str, expected: &str, node: &Node) -> Self {
        Self::new(&node.origin, path, format!("expects {expected}, not {}", describe(node)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return write!(f, "{} {}", self.origin, self.what);
        }
        match &self.origin {
            Origin::Default => write!(f, "`{}` {}", self.path, self.what),
            origin => write!(f, "{origin}: `{}` {}", self.path, self.what),
        }
    }
}

/// All problems of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration is not valid:\n{}\ncorrect it, then try `angelia config check`", lines(.0))]
pub(crate) struct ConfigErrors(pub(crate) Vec<Problem>);

impl From<Problem> for ConfigErrors {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
    lines.join("\n")
}

fn describe(node: &Node) -> String {
    const SHOWN: usize = 40;
    match &node.value {
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
        Value::Scalar(scalar) if scalar.kind == ScalarKind::Null => "null".to_owned(),
        Value::Scalar(scalar) if scalar.text.is_empty() => "an empty text".to_owned(),
        Value::Scalar(scalar) => {
            let visible = |c: char| if c.is_control() { ' ' } else { c };
            let shown: String = scalar.text.chars().map(visible).take(SHOWN).collect();
            let more = scalar.text.chars().nth(SHOWN).map_or("", |_| "…");
            format!("`{shown}{more}`")
        }
    }
}

/// Returns the known name that is most similar to a mistyped one, if any is similar enough.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.6;
    known
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
