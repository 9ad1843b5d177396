//! A path resolver for engines without files: it removes `..` and looks at nothing.

use std::path::{Component, PathBuf};

use angelia_core::ports::{BoxFuture, KnownPlaces, PathResolver};

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
