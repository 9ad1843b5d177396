//! The file-related ports for engines without files: a path resolver that removes `..` without
//! accessing any file, diffs that only name their files, and sessions without files.

use std::{
    io,
    path::{Component, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::{FileEdit, SessionId},
    ports::{BoxFuture, EditDiffer, KnownPlaces, PathResolver, SessionFiles},
};

#[derive(Debug)]
pub struct LexicalPaths {
    places: KnownPlaces,
}

impl Default for LexicalPaths {
    fn default() -> Self {
        let places = KnownPlaces {
            user_home: "/home/owner".into(),
            angelia_home: "/home/owner/.angelia".into(),
            agent_files: Vec::new(),
        };
        Self { places }
    }
}

impl PathResolver for LexicalPaths {
    fn places(&self) -> &KnownPlaces {
        &self.places
    }

    fn resolve(&self, paths: Vec<PathBuf>) -> BoxFuture<'_, Vec<PathBuf>> {
        let resolved = paths.iter().map(|path| {
            let mut resolved = PathBuf::new();
            for component in path.components() {
                match component {
                    Component::ParentDir => {
                        resolved.pop();
                    }
                    Component::CurDir => {}
                    other => resolved.push(other),
                }
            }
            resolved
        });
        Box::pin(std::future::ready(resolved.collect()))
    }
}

/// Names the files of the edits and compares nothing.
#[derive(Clone, Copy, Debug)]
pub struct NamedDiffs;

impl EditDiffer for NamedDiffs {
    fn diff(&self, edits: Vec<FileEdit>, _cwd: PathBuf) -> BoxFuture<'_, Option<Arc<str>>> {
        let names = edits.iter().map(|edit| format!("--- a/{0}\n+++ b/{0}\n", edit.path.display()));
        let diff = (!edits.is_empty()).then(|| names.collect::<String>().into());
        Box::pin(std::future::ready(diff))
    }
}

/// Session files that never exist.
#[derive(Clone, Copy, Debug)]
pub struct NoSessionFiles;

impl SessionFiles for NoSessionFiles {
    fn remove(&self, _session: SessionId) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
