//! Runs scripts in the shells of this machine, in a folder of their own. `PATH` has copies of a few
//! harmless programs, and a fake `rm` that leaves a mark.

#![expect(clippy::disallowed_methods, reason = "the test runs shells")]

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

const PROGRAMS: [&str; 19] = [
    "awk", "cat", "echo", "env", "find", "git", "nice", "nohup", "setsid", "sh", "sort", "split",
    "bash", "stdbuf", "tar", "timeout", "true", "false", "xargs",
];
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(4);

pub(crate) struct RealShells {
    folder: TempDir,
    shells: Vec<PathBuf>,
}

impl RealShells {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).unwrap();
        let search = ["/bin", "/usr/bin", "/usr/local/bin"].map(Path::new);
        for program in PROGRAMS {
            // Copies, not links: a script that writes to one must not reach the real program.
            if let Some(found) = search.iter().map(|dir| dir.join(program)).find(|at| at.exists()) {
                fs::copy(found, programs.join(program)).unwrap();
            }
        }
        let shells = ["dash", "bash", "zsh"]
            .iter()
            .filter_map(|name| search.iter().map(|dir| dir.join(name)).find(|at| at.exists()))
            .collect();
        Self { folder, shells }
    }

    /// The fake `rm` of one script. Each has its own: a script can leave a process behind that runs
    /// `rm` only when the next script is already running.
    pub(crate) fn fake_rm(&self, number: u64) -> PathBuf {
        self.folder.path().join(format!("run-{number}/fake/rm"))
    }

    /// Returns the shell in which the script runs its fake `rm`.
    pub(crate) fn find_shell_that_removes(&self, script: &str, number: u64) -> Option<String> {
        let run = self.folder.path().join(format!("run-{number}"));
        let removes = |shell: &&PathBuf| self.removes(shell, script, &run);
        let found = self.shells.iter().find(removes).map(|shell| shell.display().to_string());
        let _busy = fs::remove_dir_all(&run);
        found
    }

    fn removes(&self, shell: &Path, script: &str, run: &Path) -> bool {
        let (bin, work, mark) = (run.join("fake"), run.join("work"), run.join("mark"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&work).unwrap();
        // What `split` and `sort` read.
        fs::write(work.join("s"), "a\n").unwrap();
        fs::write(work.join("many"), "b\na\n".repeat(400)).unwrap();
        let fake = format!("#!/bin/sh\n: > '{}'\n", mark.display());
        fs::write(bin.join("rm"), fake).unwrap();
        fs::set_permissions(bin.join("rm"), fs::Permissions::from_mode(0o755)).unwrap();
        let programs = self.folder.path().join("programs");
        // A script can write without end, so the size of its files is limited.
        let mut child = Command::new("/bin/sh")
            .args(["-c", "ulimit -f 1024; exec \"$0\" -c \"$1\""])
            .arg(shell)
            .arg(script)
            .current_dir(&work)
            .env_clear()
            .env("PATH", format!("{}:{}", bin.display(), programs.display()))
            .env("HOME", &work)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_or_kill(&mut child);
        mark.exists()
    }
}

fn wait_or_kill(child: &mut Child) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > SCRIPT_TIMEOUT {
            // The whole group, which only this script is in.
            let group = format!("-{}", child.id());
            let _status = Command::new("/bin/kill").args(["-KILL", "--", &group]).status();
            let _status = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
