//! `angelia codex enable` and `disable`: change one file atomically.

use std::{fs, io, os::unix::fs::DirBuilderExt as _, path::Path, sync::Arc};

use angelia_core::{model::AuditAction, ports::LoginState};
use angelia_executors::codex::user_config::{
    ConfigPart, PartState, with_angelia_config, without_angelia_config,
};

use super::{
    CodexHome, EnableArgs, broken_config_error, desired_config, diff, ensure_no_running_turn,
    status,
};
use crate::{
    assemble::{App, HomeStore, LocalEngine},
    cli::{
        error::{CommandError, Exit},
        print,
        user_file::{UserFile, UserFileError},
    },
};

/// Maximum number of attempts. Another program may write the file at the same moment, but if that
/// happens repeatedly, it is not a coincidence.
const MAX_ATTEMPTS: usize = 3;

pub(super) async fn enable(
    app: &Arc<App>,
    file: Option<&Path>,
    home: &CodexHome,
    args: &EnableArgs,
) -> Result<Exit, CommandError> {
    if home.dir.is_dir() {
        // Check this before Codex is started, because Codex would block on a file that is a named
        // pipe.
        UserFile::open(&home.config_path())?.read()?;
    }
    let wished = desired_config::collect_desired(app, file, home, args)?;
    check_program(app, args.dry_run).await?;
    let make = |text: Option<&str>| {
        let plan = with_angelia_config(text, &wished.config)
            .map_err(|error| broken_config_error(home, &error))?;
        let is_nothing = text.is_none() && plan.text.is_empty();
        let new = (!is_nothing).then_some(plan.text);
        Ok((new, plan.parts))
    };
    let changed = apply_edit(home, args.dry_run, make)?;
    for problem in &wished.problems {
        print::note(problem);
    }
    let mut failed = !wished.problems.is_empty();
    for part in &changed.parts {
        for line in part_notes(part) {
            print::note(&line);
        }
        failed |= matches!(part.state, PartState::Failed(_));
    }
    record_change(app, home, &changed, args.dry_run, "enabled").await;
    report(home, &changed, args.dry_run, "enabled")?;
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

pub(super) async fn disable(
    app: &Arc<App>,
    home: &CodexHome,
    dry_run: bool,
) -> Result<Exit, CommandError> {
    if !dry_run {
        let local = LocalEngine::start(app, "codex", false).await?;
        let free = ensure_no_running_turn(&*local.store).await;
        local.stop().await;
        free?;
    }
    let make = |text: Option<&str>| {
        let new = match text {
            Some(text) => {
                without_angelia_config(text).map_err(|error| broken_config_error(home, &error))?
            }
            None => None,
        };
        Ok((new, Vec::new()))
    };
    let changed = apply_edit(home, dry_run, make)?;
    record_change(app, home, &changed, dry_run, "disabled").await;
    report(home, &changed, dry_run, "disabled")
}

async fn record_change(
    app: &App,
    home: &CodexHome,
    changed: &FileChange,
    dry_run: bool,
    done: &str,
) {
    if !dry_run && changed.old != changed.new {
        let subject = format!("{done} in {}", home.config_path().display());
        HomeStore::record_audit(
            &app.home,
            app.record_location(),
            AuditAction::Configuration,
            subject,
        )
        .await;
    }
}

/// The file before and after the edit, with notes about its parts.
struct FileChange {
    old: Option<String>,
    new: Option<String>,
    parts: Vec<ConfigPart>,
}

type EditResult = Result<(Option<String>, Vec<ConfigPart>), CommandError>;

fn apply_edit(
    home: &CodexHome,
    dry_run: bool,
    make: impl Fn(Option<&str>) -> EditResult,
) -> Result<FileChange, CommandError> {
    // A dry run must not create the folder, and a folder named by `CODEX_HOME` must already exist.
    if !home.dir.is_dir() && (dry_run || !home.is_explicit) {
        let (new, said) = make(None)?;
        if dry_run || new.is_none() {
            let old = None;
            return Ok(FileChange { old, new, parts: said });
        }
        make_folder(&home.dir)?;
    }
    let file = UserFile::open(&home.config_path())?;
    let mut attempt = 1;
    loop {
        let old = file.read()?;
        let (new, said) = make(old.as_deref())?;
        if dry_run {
            return Ok(FileChange { old, new, parts: said });
        }
        match file.replace(old.as_deref(), new.as_deref()) {
            Ok(()) => return Ok(FileChange { old, new, parts: said }),
            Err(UserFileError::Changed(_)) if attempt < MAX_ATTEMPTS => attempt += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

fn make_folder(path: &Path) -> Result<(), CommandError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            let message = format!("cannot make {}: {error}", path.display());
            Err(CommandError::new(Exit::Failed, message).with_hint("nothing was changed"))
        }
    }
}

/// Checks that there is a Codex that would read the file. Only mentions a missing login, because it
/// does not matter yet.
async fn check_program(app: &Arc<App>, dry_run: bool) -> Result<(), CommandError> {
    let local = LocalEngine::start(app, "codex", false).await?;
    let health = status::probe_health(app, &local).await;
    let free = ensure_no_running_turn(&*local.store).await;
    local.stop().await;
    if !dry_run {
        free?;
    }
    if health.login == LoginState::LoggedOut {
        print::note("Codex is not logged in; run `codex login` once in a terminal");
    }
    match health.problem {
        Some(problem) if health.installation.is_none() && !dry_run => Err(problem.into()),
        Some(problem) if health.login != LoginState::LoggedOut => {
            print::note(&problem.message);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn report(
    home: &CodexHome,
    changed: &FileChange,
    dry_run: bool,
    done: &str,
) -> Result<Exit, CommandError> {
    let path = home.config_path();
    if changed.old == changed.new {
        return print::line(&format!("{}: nothing to change", path.display()));
    }
    if dry_run {
        let old = changed.old.as_deref().unwrap_or_default();
        let new = changed.new.as_deref().unwrap_or_default();
        return print::bytes(diff::render_diff(&path, old, new).as_bytes());
    }
    print::line(&format!("{done} in {}; new sessions will use it", path.display()))
}

/// Returns the lines to print about a part that was kept, failed or lost keys.
pub(super) fn part_notes(part: &ConfigPart) -> Vec<String> {
    let name = &part.name;
    let mut words = Vec::new();
    match &part.state {
        PartState::Written => {}
        PartState::Kept(why) => words.push(format!("{name}: {why}")),
        PartState::Failed(why) => words.push(format!("{name}: not written: {why}")),
    }
    if !part.ignored_keys.is_empty() {
        let keys = part.ignored_keys.join(", ");
        words.push(format!("{name}: Codex does not accept {keys}; left out"));
    }
    words
}
