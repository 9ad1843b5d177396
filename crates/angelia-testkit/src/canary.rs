//! Markers in the files of a home, which show whether an agent sent them to a model or ran them.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::model_server::RecordedRequest;

/// Prefix of every marker.
const PREFIX: &str = "CANARY-";

/// Plants markers. A program that is run leaves its name in a folder that only we read.
#[derive(Debug)]
pub struct Canaries {
    programs: PathBuf,
    traces: PathBuf,
}

impl Canaries {
    /// Creates canaries that keep their programs and traces in `folder`.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let canaries =
            Self { programs: folder.join("canary-bin"), traces: folder.join("canary-runs") };
        fs::create_dir_all(&canaries.programs)?;
        fs::create_dir_all(&canaries.traces)?;
        Ok(canaries)
    }

    /// Returns the marker of this name.
    pub fn text(&self, name: &str) -> String {
        format!("{PREFIX}{name}")
    }

    /// Returns the path of a program that leaves a trace and prints its marker.
    pub fn program(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.programs.join(name);
        let trace = self.traces.join(name);
        let script = format!("#!/bin/sh\n: >'{}'\necho '{}'\n", trace.display(), self.text(name));
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Writes a file, creating its parent folders. In `content`, `MARKER` stands for the marker of
    /// `path`, and `PROGRAM` for a program with the same name.
    pub fn plant(&self, root: &Path, path: &str, content: &str) -> io::Result<()> {
        let place = root.join(path);
        let name: String = place
            .to_string_lossy()
            .chars()
            .map(|char| if char.is_ascii_alphanumeric() { char } else { '-' })
            .collect();
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        let program = self.program(&name)?;
        let content = content.replace("MARKER", &self.text(&name));
        fs::write(place, content.replace("PROGRAM", &program.to_string_lossy()))
    }

    /// Returns the names of the programs that were run.
    pub fn runs(&self) -> io::Result<Vec<String>> {
        let runs = self.traces.read_dir()?;
        runs.map(|run| Ok(run?.file_name().to_string_lossy().into_owned())).collect()
    }

    /// Returns the markers in a request, in its headers or its body.
    pub fn markers_in(request: &RecordedRequest) -> Vec<String> {
        let mut text = String::from_utf8_lossy(&request.body).into_owned();
        for (name, value) in &request.headers {
            text.extend([name, "\n", value, "\n"]);
        }
        let ends = |char: char| !char.is_ascii_alphanumeric() && char != '-';
        let starts = text.match_indices(PREFIX).map(|(start, _)| &text[start..]);
        starts.map(|rest| rest.split(ends).next().unwrap_or_default().to_owned()).collect()
    }
}
