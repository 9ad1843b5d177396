//! The maximum number of live agents on this machine if the configuration says `auto`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::config::LiveAgentLimit;

/// Memory reserved per agent; an idle Claude Code takes about 170 MB.
const BYTES_PER_AGENT: u64 = 256 << 20;
/// The rest of the memory is for the agents' tools and everything else.
const SHARE_FOR_AGENTS: u64 = 2;
const FEWEST: u64 = 4;
const MOST: u64 = 64;

/// Returns the number for `sessions.max_live`.
pub(crate) fn limit(setting: LiveAgentLimit) -> usize {
    match setting {
        LiveAgentLimit::Count(count) => count as usize,
        LiveAgentLimit::Auto => {
            let memory = usable_memory(Path::new("/"));
            usize::try_from(limit_for(memory)).unwrap_or(usize::MAX)
        }
    }
}

/// Returns the limit for a machine with this much memory, or with an unknown amount.
fn limit_for(memory: Option<u64>) -> u64 {
    memory.map_or(FEWEST * 4, |bytes| {
        (bytes / SHARE_FOR_AGENTS / BYTES_PER_AGENT).clamp(FEWEST, MOST)
    })
}

/// Returns the bytes of memory that this process may use: the machine's memory, or the limit of its
/// cgroup (on Linux). `root` is `/`.
fn usable_memory(root: &Path) -> Option<u64> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = machine.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.split_ascii_whitespace().next()?.parse().ok()?;
    Some(cgroup_limits(root).fold(kibibytes << 10, u64::min))
}

/// Returns the memory limits of our cgroup and its ancestors.
fn cgroup_limits(root: &Path) -> impl Iterator<Item = u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let folders = root.join("sys/fs/cgroup");
    let own: Option<PathBuf> = own.map(|path| folders.join(path));
    let around: Vec<PathBuf> = own
        .iter()
        .flat_map(|path| path.ancestors())
        .take_while(|folder| folder.starts_with(&folders))
        .map(|folder| folder.join("memory.max"))
        .collect();
    // A group without a limit says `max`.
    around.into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_memory_is_for_agents() {
        let gib = |count: u64| Some(count << 30);
        let limits = [gib(1), gib(2), gib(4), gib(8), gib(16), gib(32), gib(512), None];
        assert_eq!(limits.map(limit_for), [4, 4, 8, 16, 32, 64, 64, 16]);
        assert_eq!(limit(LiveAgentLimit::Count(7)), 7);
    }

    #[test]
    fn the_lowest_limit_around_us_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(usable_memory(root.path()), None);
        write("proc/meminfo", "MemFree:  1 kB\nMemTotal:       16777216 kB\n");
        assert_eq!(usable_memory(root.path()), Some(16 << 30));
        write("proc/self/cgroup", "0::/user.slice/angelia.service\n");
        write("sys/fs/cgroup/user.slice/angelia.service/memory.max", "max\n");
        assert_eq!(usable_memory(root.path()), Some(16 << 30));
        write("sys/fs/cgroup/user.slice/memory.max", "4294967296\n");
        assert_eq!(usable_memory(root.path()), Some(4 << 30));
    }
}
