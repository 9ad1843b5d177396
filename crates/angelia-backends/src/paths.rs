//! Real paths: resolves a path on this machine by following every symbolic link.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
};

use angelia_core::ports::{BoxFuture, KnownPlaces, PathResolver};

/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// Resolves paths on this machine's file systems.
#[derive(Debug)]
pub struct RealPaths {
    places: KnownPlaces,
}

impl RealPaths {
    /// `agent_files`: see [`KnownPlaces::agent_files`].
    pub fn new(user_home: &Path, angelia_home: &Path, agent_files: Vec<&'static str>) -> Self {
        let places = KnownPlaces {
            user_home: real_path(user_home),
            angelia_home: real_path(angelia_home),
            agent_files,
        };
        Self { places }
    }
}

impl PathResolver for RealPaths {
    fn places(&self) -> &KnownPlaces {
        &self.places
    }

    fn resolve(&self, paths: Vec<PathBuf>) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(async move {
            let unresolved = paths.clone();
            let work = move || paths.iter().map(|path| real_path(path)).collect();
            // A file system may be slow; the engine's threads must not wait for it.
            tokio::task::spawn_blocking(work).await.unwrap_or(unresolved)
        })
    }
}

/// Follows the links of an absolute path as the kernel does. Components that do not exist keep
/// their names. `/proc` is not followed, because its links differ for every process.
fn real_path(path: &Path) -> PathBuf {
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = parts(path);
    let mut links = 0_usize;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(&part);
        if real.starts_with("/proc") || links >= MAX_LINKS {
            continue;
        }
        let Ok(target) = fs::read_link(&real) else {
            continue;
        };
        links += 1;
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for part in parts(&target).into_iter().rev() {
            rest.push_front(part);
        }
    }
    real
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(part) => Some(part.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_parents_lead_where_the_kernel_goes() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("work/sub")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        fs::write(root.join("outside/file"), "").unwrap();
        symlink(root.join("outside"), root.join("work/link")).unwrap();
        symlink("../outside/new", root.join("work/dangling")).unwrap();
        symlink("loop", root.join("work/loop")).unwrap();
        let cases = [
            ("work/sub/../a", "work/a"),
            ("work/link/file", "outside/file"),
            ("work/link/new/x", "outside/new/x"),
            ("work/link/../x", "x"),
            ("work/dangling", "outside/new"),
            ("work/none/../x", "work/x"),
            ("work/loop/x", "work/loop/x"),
        ];
        for (path, expected) in cases {
            assert_eq!(real_path(&root.join(path)), root.join(expected), "{path}");
        }
        assert_eq!(real_path(Path::new("/proc/self/cwd/x")), Path::new("/proc/self/cwd/x"));
    }
}
