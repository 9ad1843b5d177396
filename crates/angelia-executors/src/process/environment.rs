//! The child's environment, built from an allow-list. Pure: our own environment is passed in.
//!
//! Variables that are not on the list are withheld. This keeps a stray API key from billing the
//! wrong account, and keeps the variables of an agent that started us from confusing the agent that
//! we start.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
    str::FromStr,
};

use super::mark::{self, ProcessMark};

/// A pattern for the names of variables to let through. Names are case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvPattern {
    Name(String),
    /// Written `PREFIX*`.
    Prefix(String),
}

/// Why an environment cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    #[error(
        "`env_pass: {0}` is not a variable; write a NAME or a PREFIX_*, one per variable or family"
    )]
    Pattern(String),
    #[error(
        "`env: {0:?}` cannot be set; names need text without `=`, and NUL bytes are not allowed"
    )]
    Variable(String),
}

impl FromStr for EnvPattern {
    type Err = EnvironmentError;

    fn from_str(text: &str) -> Result<Self, EnvironmentError> {
        let (name, prefix) = match text.strip_suffix('*') {
            Some(name) => (name, true),
            None => (text, false),
        };
        // A bare `*` would let every secret through, which the allow-list exists to prevent.
        if name.is_empty() || name.contains(|c: char| "*=\0".contains(c) || c.is_whitespace()) {
            return Err(EnvironmentError::Pattern(text.to_owned()));
        }
        Ok(if prefix { Self::Prefix(name.to_owned()) } else { Self::Name(name.to_owned()) })
    }
}

impl EnvPattern {
    fn matches(&self, name: &OsStr) -> bool {
        match self {
            Self::Name(wanted) => name == OsStr::new(wanted),
            Self::Prefix(prefix) => name.as_bytes().starts_with(prefix.as_bytes()),
        }
    }
}

/// Reports whether every child gets this variable: program search, user, locale, temporary files,
/// proxies and certificates.
fn is_allowed(name: &OsStr) -> bool {
    const NAMES: [&[u8]; 11] = [
        b"PATH",
        b"HOME",
        b"USER",
        b"LOGNAME",
        b"SHELL",
        b"LANG",
        b"TZ",
        b"TERM",
        b"TMPDIR",
        b"SSH_AUTH_SOCK",
        b"NODE_EXTRA_CA_CERTS",
    ];
    const PREFIXES: [&[u8]; 2] = [b"LC_", b"SSL_CERT_"];
    const SUFFIXES: [&[u8]; 2] = [b"_PROXY", b"_proxy"];

    let name = name.as_bytes();
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.len() > suffix.len() && name.ends_with(suffix))
}

/// The variables that a profile adds to the allow-list.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentAdditions<'a> {
    /// `env_pass`: passed through from our environment.
    pub pass: &'a [EnvPattern],
    /// `env`: set in the child; overrides variables that are passed through.
    pub set: &'a BTreeMap<String, String>,
    /// `HOME` if our own environment has none. Without it, agents fall back to the passwd entry.
    pub home: &'a Path,
}

/// Builds the complete environment of a child. The mark is set last, so nothing overrides it.
pub fn build_environment(
    ours: &BTreeMap<OsString, OsString>,
    additions: EnvironmentAdditions<'_>,
    mark: &ProcessMark,
) -> Result<BTreeMap<OsString, OsString>, EnvironmentError> {
    let passes = |name: &OsStr| {
        is_allowed(name) || additions.pass.iter().any(|pattern| pattern.matches(name))
    };
    let mut child: BTreeMap<OsString, OsString> = ours
        .iter()
        .filter(|(name, _)| passes(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();

    for (name, value) in additions.set {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(EnvironmentError::Variable(name.clone()));
        }
        child.insert(name.into(), value.into());
    }
    if child.get(OsStr::new("HOME")).is_none_or(|home| home.is_empty()) {
        child.insert("HOME".into(), additions.home.into());
    }
    child.insert(mark::MARK_VARIABLE.into(), mark.to_string().into());
    Ok(child)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: BTreeMap<String, String> = BTreeMap::new();

    fn ours(names: &[&str]) -> BTreeMap<OsString, OsString> {
        names.iter().map(|name| (name.into(), format!("our {name}").into())).collect()
    }

    fn mark() -> ProcessMark {
        "home:owner:agent".parse().unwrap()
    }

    fn child(names: &[&str], pass: &[&str], set: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        let pass: Vec<EnvPattern> = pass.iter().map(|text| text.parse().unwrap()).collect();
        let set = set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let additions =
            EnvironmentAdditions { pass: &pass, set: &set, home: Path::new("/home/fallback") };
        build_environment(&ours(names), additions, &mark()).unwrap()
    }

    fn names_of(environment: &BTreeMap<OsString, OsString>) -> Vec<&str> {
        environment.keys().map(|name| name.to_str().unwrap()).collect()
    }

    #[test]
    fn the_allow_list() {
        let table = [
            ("PATH", true),
            ("HOME", true),
            ("USER", true),
            ("LOGNAME", true),
            ("SHELL", true),
            ("LANG", true),
            ("LC_ALL", true),
            ("LC_CTYPE", true),
            ("TZ", true),
            ("TERM", true),
            ("TMPDIR", true),
            ("SSH_AUTH_SOCK", true),
            ("HTTP_PROXY", true),
            ("HTTPS_PROXY", true),
            ("NO_PROXY", true),
            ("ALL_PROXY", true),
            ("http_proxy", true),
            ("https_proxy", true),
            ("no_proxy", true),
            ("NODE_EXTRA_CA_CERTS", true),
            ("SSL_CERT_FILE", true),
            ("SSL_CERT_DIR", true),
            // Keys and tokens.
            ("ANTHROPIC_API_KEY", false),
            ("OPENAI_API_KEY", false),
            ("GITHUB_TOKEN", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            // Variables that an agent sets for the programs it starts.
            ("CLAUDECODE", false),
            ("CLAUDE_CODE_ENTRYPOINT", false),
            ("CODEX_SANDBOX", false),
            ("ANGELIA_HOME", false),
            // Variables that change how programs are loaded and run.
            ("LD_PRELOAD", false),
            ("NODE_OPTIONS", false),
            // Near misses.
            ("LC", false),
            ("LANGUAGE", false),
            ("_PROXY", false),
            ("PROXY", false),
            ("path", false),
            ("PATH2", false),
            ("MY_HOME", false),
            ("SSL_KEY", false),
        ];
        for (name, passes) in table {
            let environment = child(&[name], &[], &[]);
            let passed = environment.get(OsStr::new(name));
            let expected = passes.then(|| OsString::from(format!("our {name}")));
            assert_eq!(passed, expected.as_ref(), "{name}");
        }
    }

    #[test]
    fn home_is_always_there() {
        assert_eq!(child(&[], &[], &[])[OsStr::new("HOME")], "/home/fallback");
        assert_eq!(child(&["HOME"], &[], &[])[OsStr::new("HOME")], "our HOME");
        assert_eq!(child(&["HOME"], &[], &[("HOME", "/set")])[OsStr::new("HOME")], "/set");
        assert_eq!(child(&["HOME"], &[], &[("HOME", "")])[OsStr::new("HOME")], "/home/fallback");
    }

    #[test]
    fn a_profile_adds_names_families_and_values() {
        let environment = child(
            &["AWS_PROFILE", "AWS_REGION", "GH_TOKEN", "GH_TOKEN_2", "PATH"],
            &["AWS_*", "GH_TOKEN"],
            &[("PATH", "/set"), ("NEW", "1")],
        );
        assert_eq!(
            names_of(&environment),
            ["ANGELIA_AGENT", "AWS_PROFILE", "AWS_REGION", "GH_TOKEN", "HOME", "NEW", "PATH"]
        );
        assert_eq!(environment[OsStr::new("PATH")], "/set");
    }

    #[test]
    fn nothing_displaces_the_mark() {
        for environment in [
            child(&["ANGELIA_AGENT"], &["ANGELIA_AGENT", "ANGELIA_*"], &[]),
            child(&[], &[], &[("ANGELIA_AGENT", mark::RELEASED_MARK)]),
        ] {
            assert_eq!(environment[OsStr::new("ANGELIA_AGENT")], "home:owner:agent");
        }
    }

    #[test]
    fn patterns_that_mean_nothing_or_everything_are_refused() {
        for text in ["", "*", "A*B", "*_KEY", "A=B", "A B", "**"] {
            assert!(text.parse::<EnvPattern>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_the_system_cannot_carry_is_refused_by_name() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0")] {
            let set = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let additions = EnvironmentAdditions { pass: &[], set: &set, home: Path::new("/") };
            let refused = build_environment(&ours(&[]), additions, &mark());
            assert_eq!(refused, Err(EnvironmentError::Variable(name.to_owned())));
        }
        let additions = EnvironmentAdditions { pass: &[], set: &NOTHING, home: Path::new("/") };
        assert!(build_environment(&ours(&[]), additions, &mark()).is_ok());
    }
}
