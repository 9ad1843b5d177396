//! Tests of Angelia's own folder.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use super::{Environment, Home, TestHome};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn home_at(path: &Path) -> Home {
    let vars = [("ANGELIA_HOME".into(), path.as_os_str().to_owned())];
    Home::from_environment(&Environment::from_iter(vars)).unwrap()
}

#[test]
fn it_is_where_the_environment_says() {
    let env = |vars: &[(&str, &str)]| {
        let vars = vars.iter().map(|(name, value)| (name.into(), value.into()));
        Home::from_environment(&vars.collect()).map(|home| home.dir().to_path_buf())
    };
    assert_eq!(env(&[("HOME", "/h")]).unwrap(), Path::new("/h/.angelia"));
    let both = [("HOME", "/h"), ("ANGELIA_HOME", "/a")];
    assert_eq!(env(&both).unwrap(), Path::new("/a"));
    let empty = [("HOME", "/h"), ("ANGELIA_HOME", "")];
    assert_eq!(env(&empty).unwrap(), Path::new("/h/.angelia"));
    insta::assert_snapshot!(env(&[]).unwrap_err(), @"there is no folder for Angelia: neither ANGELIA_HOME nor HOME is set; set one of them");
}

#[test]
fn it_is_made_for_its_owner_only() {
    let place = TestHome::new();
    let home = home_at(&place.path("new/home"));
    home.prepare().unwrap();
    for path in
        [home.dir(), &home.run_dir(), &home.owners_dir(), &home.work_dir(), &home.logs_dir()]
    {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    home.prepare().unwrap();
}

#[test]
fn a_wider_one_is_narrowed() {
    let place = TestHome::new();
    let home = home_at(&place.path("wide"));
    fs::create_dir(home.dir()).unwrap();
    fs::create_dir(home.run_dir()).unwrap();
    fs::set_permissions(home.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.run_dir(), fs::Permissions::from_mode(0o777)).unwrap();
    home.prepare().unwrap();
    assert_eq!((mode(home.dir()), mode(&home.run_dir())), (0o700, 0o700));
}

#[test]
fn what_is_no_folder_is_refused() {
    let place = TestHome::new();
    fs::write(place.path("file"), "x").unwrap();
    for path in ["file", "file/below"] {
        let said = home_at(&place.path(path)).prepare().unwrap_err().to_string();
        assert!(
            said.ends_with("file is not a folder; remove it, or set ANGELIA_HOME to another path"),
            "{said}"
        );
    }
    let said = home_at(Path::new("/proc/none")).prepare().unwrap_err().to_string();
    assert!(said.contains("set ANGELIA_HOME to a folder that"), "{said}");
}

/// Only a daemon's socket is limited by the length of the path.
#[test]
fn a_path_too_long_is_refused_only_to_a_daemon() {
    let place = TestHome::new();
    let home = home_at(&place.path(&"x".repeat(100)));
    home.prepare().unwrap();
    let said = home.check_socket().unwrap_err().to_string();
    assert!(said.ends_with("set ANGELIA_HOME to a shorter path"), "{said}");
}

#[test]
fn the_token_is_made_once_and_is_the_owners() {
    let place = TestHome::new();
    let home = home_at(&place.path("home"));
    home.prepare().unwrap();
    let token = home.load_or_create_token().unwrap();
    assert_eq!(token.reveal().len(), 64);
    assert!(token.reveal().bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(mode(&home.token_file()), 0o600);
    assert_eq!(home.load_or_create_token().unwrap(), token);
    assert_eq!(format!("{token:?}"), "Token(hidden)");
    // No draft is left behind, and wider permissions are narrowed again.
    assert_eq!(fs::read_dir(home.dir()).unwrap().count(), 4);
    fs::set_permissions(home.token_file(), fs::Permissions::from_mode(0o644)).unwrap();
    home.load_or_create_token().unwrap();
    assert_eq!(mode(&home.token_file()), 0o600);
    fs::write(home.token_file(), "\n").unwrap();
    let said = home.load_or_create_token().unwrap_err().to_string();
    assert!(said.ends_with("token holds no token; remove it and the next start makes a new one"));
}

#[test]
fn two_first_starts_agree_on_one_token() {
    let place = TestHome::new();
    let home = home_at(&place.path("home"));
    home.prepare().unwrap();
    let tokens: Vec<_> = std::thread::scope(|scope| {
        let start = |_| scope.spawn(|| home.load_or_create_token().unwrap());
        let threads: Vec<_> = (0..8).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(tokens.iter().all(|token| *token == tokens[0]));
}

#[test]
fn its_id_is_the_same_by_every_path() {
    let place = TestHome::new();
    let home = home_at(&place.path("home"));
    home.prepare().unwrap();
    symlink(home.dir(), place.path("link")).unwrap();
    let id = home.id();
    assert_eq!(id.len(), 16);
    assert_eq!(home_at(&place.path("link")).id(), id);
    assert_eq!(home_at(&place.path("home/../home")).id(), id);
    assert_ne!(home_at(&place.path("other")).id(), id);
}
