//! The MCP servers that a project defines in `.mcp.json` in the session's directory. The file is
//! read only if the owner trusts the project, because starting a server runs a program that the
//! project names.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use angelia_core::model::RawJson;
use serde::Deserialize;

pub const FILE_NAME: &str = ".mcp.json";

const MAX_BYTES: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ProjectFileError {
    #[error("{FILE_NAME} of this project cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("{FILE_NAME} of this project is not a table of `mcpServers`: {0}")]
    Content(#[from] serde_json::Error),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProjectFile {
    #[serde(default)]
    mcp_servers: BTreeMap<Arc<str>, RawJson>,
}

/// Returns the definitions by name; none if there is no such file.
pub fn read_project_servers(cwd: &Path) -> Result<BTreeMap<Arc<str>, RawJson>, ProjectFileError> {
    let path = cwd.join(FILE_NAME);
    // Opening a named pipe would block until somebody writes to it.
    if !path.is_file() {
        return Ok(BTreeMap::new());
    }
    let mut text = String::new();
    File::open(&path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    let file: ProjectFile = serde_json::from_str(&text)?;
    Ok(file.mcp_servers)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn servers_are_read_by_name() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read_project_servers(folder.path()).unwrap().is_empty());
        let file = folder.path().join(FILE_NAME);
        fs::write(&file, r#"{"mcpServers": {"docs": {"command": "x"}}, "other": 1}"#).unwrap();
        let servers = read_project_servers(folder.path()).unwrap();
        assert_eq!(servers["docs"].get(), r#"{"command": "x"}"#);
        for text in ["{", r#"{"mcpServers": []}"#] {
            fs::write(&file, text).unwrap();
            let error = read_project_servers(folder.path()).unwrap_err().to_string();
            assert!(error.contains(FILE_NAME), "{error}");
        }
    }
}
