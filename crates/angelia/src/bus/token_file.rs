//! A file with the token that protects an endpoint's name and proves the right to it.

use std::path::Path;

use crate::cli::error::{CommandError, Exit};

pub(crate) fn read(path: &Path) -> Result<String, CommandError> {
    let failed = |why: &str| {
        CommandError::new(
            Exit::Usage,
            format!("cannot read a token from {}: {why}", path.display()),
        )
    };
    let token = std::fs::read_to_string(path).map_err(|error| failed(&error.to_string()))?;
    match token.trim() {
        "" => Err(failed("it is empty")),
        token => Ok(token.to_owned()),
    }
}
