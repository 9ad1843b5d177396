//! Landlock: a confined child opens what it may, and nothing else.

use std::{fs, path::Path};

use angelia_executors::{
    claude,
    process::{ProcessLaunch, confinement::Confinement, run_to_end},
};

use super::{DEADLINE, isolated_executor::IsolatedExecutor, shell};

/// Runs a program with these arguments, confined as `allow` says. Returns its output.
async fn run_confined(
    program: &str,
    args: &[&str],
    allow: impl FnOnce(&mut Confinement, &Path),
) -> (bool, String) {
    let place = IsolatedExecutor::new(&claude::REGISTRATION);
    let home = place.isolated.home();
    fs::create_dir(home.join("open")).unwrap();
    for file in ["secret", "open/file"] {
        fs::write(home.join(file), "CONTENT").unwrap();
    }
    let mut confinement = Confinement::outside_home(&home);
    allow(&mut confinement, &home);
    let launch = ProcessLaunch {
        program: program.into(),
        args: args.iter().map(|path| home.join(path).into()).collect(),
        ..shell("")
    };
    let launch = confinement.apply(&place.host.current_exe, launch);
    let finished = run_to_end(&launch, DEADLINE).await.unwrap();
    let mut output = String::from_utf8_lossy(&finished.stdout).into_owned();
    output.push_str(&finished.stderr.tail(|text| text.into()));
    (finished.succeeded(), output)
}

#[tokio::test]
async fn a_confined_child_reads_only_what_is_open() {
    let cat = "/bin/cat";
    let (done, output) = run_confined(cat, &["secret"], |_, _| {}).await;
    assert!(!done && output.contains("Permission denied"), "{output}");
    let (done, output) = run_confined(cat, &["secret"], |limits, home| {
        limits.allow_read(home.join("secret"));
    })
    .await;
    assert!(done && output == "CONTENT", "{output}");
    let open = |limits: &mut Confinement, home: &Path| limits.allow_read(home.join("open"));
    let (done, output) = run_confined(cat, &["open/file"], open).await;
    assert!(done && output == "CONTENT", "{output}");
    let (done, output) = run_confined(cat, &["open/../secret"], open).await;
    assert!(!done && !output.contains("CONTENT"), "{output}");
    let (done, output) = run_confined(cat, &["/etc/hostname"], |_, _| {}).await;
    assert!(done, "{output}");
}

#[tokio::test]
async fn a_confined_child_writes_only_where_it_may() {
    let remove = |allowed: bool| {
        run_confined("/bin/rm", &["open/file"], move |limits, home| {
            let folder = home.join("open");
            if allowed { limits.allow_write(folder) } else { limits.allow_read(folder) }
        })
    };
    let (done, output) = remove(false).await;
    assert!(!done && output.contains("Permission denied"), "{output}");
    let (done, output) = remove(true).await;
    assert!(done, "{output}");
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_says_so() {
    let place = IsolatedExecutor::new(&claude::REGISTRATION);
    let (path, link) = (place.isolated.home().join("cat"), place.isolated.home().join("link"));
    fs::copy("/bin/cat", &path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let launch = ProcessLaunch { program: link, ..shell("") };
    let launch =
        Confinement::outside_home(&place.isolated.home()).apply(&place.host.current_exe, launch);
    fs::remove_file(path).unwrap();
    let finished = run_to_end(&launch, DEADLINE).await.unwrap();
    assert_eq!(finished.status.unwrap().code(), Some(126));
    let words = finished.stderr.tail(|text| text.into());
    assert!(words.contains("angelia confine: No such file"), "{words}");
}
