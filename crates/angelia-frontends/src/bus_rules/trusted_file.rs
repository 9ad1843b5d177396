//! Checks that only the owner could have written a file whose content runs programs. Like sshd,
//! this checks the file and every folder on its path, because a user who can write to a folder can
//! replace the files in it.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

const WORLD_WRITABLE: u32 = 0o002;
const GROUP_WRITABLE: u32 = 0o020;
/// In a sticky folder, such as `/tmp`, no user can replace the files of another user.
const STICKY: u32 = 0o1000;

/// Why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum UntrustedFile {
    #[error("{} belongs to another user (uid {uid}); it is not used", .path.display())]
    Foreign { path: PathBuf, uid: u32 },
    #[error("{} can be written by others (mode {mode:o}); `chmod go-w` it, it is not used", .path.display())]
    Writable { path: PathBuf, mode: u32 },
    #[error("cannot check who can write {}: {source}", .path.display())]
    Unknown { path: PathBuf, source: io::Error },
}

/// Checks a file, the file that it links to, and the folders above both.
pub fn check_trusted(path: &Path) -> Result<(), UntrustedFile> {
    let unknown = |source| UntrustedFile::Unknown { path: path.to_owned(), source };
    let named = std::path::absolute(path).map_err(unknown)?;
    let real = fs::canonicalize(path).map_err(unknown)?;
    for one in real.ancestors().chain(named.ancestors().skip(1)) {
        check_one(one)?;
    }
    Ok(())
}

fn check_one(path: &Path) -> Result<(), UntrustedFile> {
    let metadata = fs::metadata(path)
        .map_err(|source| UntrustedFile::Unknown { path: path.to_owned(), source })?;
    let own = rustix::process::geteuid().as_raw();
    let (uid, mode) = (metadata.uid(), metadata.mode());
    if uid != own && uid != 0 {
        return Err(UntrustedFile::Foreign { path: path.to_owned(), uid });
    }
    let is_sticky = metadata.is_dir() && mode & STICKY != 0;
    let by_group = mode & GROUP_WRITABLE != 0 && !is_own_group(metadata.gid(), own);
    if !is_sticky && (mode & WORLD_WRITABLE != 0 || by_group) {
        return Err(UntrustedFile::Writable { path: path.to_owned(), mode: mode & 0o7777 });
    }
    Ok(())
}

/// Returns whether this user is the group's only member.
fn is_own_group(gid: u32, uid: u32) -> bool {
    // On other systems, these files do not list all users.
    cfg!(target_os = "linux")
        && fs::read_to_string("/etc/passwd").is_ok_and(|users| {
            fs::read_to_string("/etc/group")
                .is_ok_and(|groups| has_only_member(&users, &groups, gid, uid))
        })
}

/// Returns whether these tables, in the format of `/etc/passwd` and `/etc/group`, contain the group
/// and list no other member except root.
fn has_only_member(users: &str, groups: &str, gid: u32, uid: u32) -> bool {
    let is_own = |user: &str| {
        let mut fields = users.lines().map(|line| line.split(':')).filter_map(|mut fields| {
            (fields.next()? == user).then(|| fields.nth(1)?.parse::<u32>().ok()).flatten()
        });
        fields.all(|found| found == uid || found == 0)
    };
    let main_members = users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(2)?.parse() == Ok(gid)).then_some(name)
    });
    let group = groups.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next()?.parse() == Ok(gid)).then(|| fields.next().unwrap_or_default())
    });
    group.is_some_and(|members| {
        let listed = members.split(',').map(str::trim).filter(|name| !name.is_empty());
        main_members.chain(listed).all(is_own)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_group_is_ones_own_if_nobody_else_is_in_it() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n\
                     bob:x:1001:1001::/home/bob:/bin/sh\ncy:x:1002:100::/home/cy:/bin/sh\n";
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:ann\nusers:x:100:\nstaff:x:50:ann,bob\n\
                      mine:x:60:ann\n";
        let own = |gid| has_only_member(users, groups, gid, 1000);
        assert!(own(1000) && own(60) && own(0));
        assert!(!own(1001), "bob's group, with ann in it");
        assert!(!own(100), "cy's main group");
        assert!(!own(50) && !own(777));
    }

    #[test]
    fn what_another_could_write_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        let file = below.join("rules.yaml");
        fs::write(&file, "").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        set(&file, 0o644).unwrap();
        set(&below, 0o755).unwrap();
        check_trusted(&file).unwrap();
        set(&file, 0o646).unwrap();
        let error = check_trusted(&file).unwrap_err().to_string();
        assert!(error.contains("rules.yaml") && error.contains("646"), "{error}");
        set(&file, 0o600).unwrap();
        set(&below, 0o757).unwrap();
        assert!(check_trusted(&file).is_err());
        set(&below, 0o1777).unwrap();
        check_trusted(&file).unwrap();

        // A link is as trustworthy as its target and its folder.
        let link = folder.path().join("link.yaml");
        symlink(&file, &link).unwrap();
        check_trusted(&link).unwrap();
        set(&file, 0o602).unwrap();
        assert!(check_trusted(&link).is_err());
        set(&file, 0o600).unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        set(&open, 0o777).unwrap();
        symlink(&file, open.join("link.yaml")).unwrap();
        assert!(check_trusted(&open.join("link.yaml")).is_err());
    }
}
