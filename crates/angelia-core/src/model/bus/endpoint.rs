//! Names of endpoints.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

const MAX_NAME_BYTES: usize = 255;

/// A valid endpoint name: not empty, no control characters, no leading or trailing blanks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointName(Arc<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointNameError {
    #[error("an endpoint's name cannot be empty")]
    Empty,
    #[error("an endpoint's name has at most {MAX_NAME_BYTES} bytes")]
    TooLong,
    #[error("an endpoint's name cannot begin or end with a blank")]
    Blank,
    #[error("an endpoint's name cannot contain control characters")]
    Control,
}

impl EndpointName {
    pub fn new(name: &str) -> Result<Self, EndpointNameError> {
        Self::check(name).map(|()| Self(name.into()))
    }

    pub fn check(name: &str) -> Result<(), EndpointNameError> {
        if name.is_empty() {
            return Err(EndpointNameError::Empty);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(EndpointNameError::TooLong);
        }
        if name.trim() != name {
            return Err(EndpointNameError::Blank);
        }
        if name.chars().any(char::is_control) {
            return Err(EndpointNameError::Control);
        }
        Ok(())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `name-2`, `name-3` … for further sessions with the same name.
    pub fn with_suffix(&self, number: u32) -> Result<Self, EndpointNameError> {
        Self::new(&format!("{self}-{number}"))
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointName({})", self.0)
    }
}

impl FromStr for EndpointName {
    type Err = EndpointNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl AsRef<str> for EndpointName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for EndpointName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_call_endpoints_is_allowed_and_what_breaks_lines_is_not() {
        for name in ["a", "worker-2", "sp ace/ünï:*", "123", &"x".repeat(MAX_NAME_BYTES)] {
            assert!(EndpointName::new(name).is_ok(), "{name}");
        }
        for (name, why) in [
            ("", EndpointNameError::Empty),
            (" a", EndpointNameError::Blank),
            ("a\n", EndpointNameError::Blank),
            ("a\tb", EndpointNameError::Control),
            ("a\u{1b}[1m", EndpointNameError::Control),
            (&"x".repeat(MAX_NAME_BYTES + 1), EndpointNameError::TooLong),
        ] {
            assert_eq!(EndpointName::new(name), Err(why), "{name:?}");
        }
    }
}
