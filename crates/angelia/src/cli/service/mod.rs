//! `angelia service`: lets the system start the daemon at login, and restart it when it fails.
//!
//! - [`systemd`]: the user unit for Linux. [`launchd`]: the agent for macOS, never tried there.

mod launchd;
mod supervisor;
mod systemd;

use std::path::{Path, PathBuf};

use clap::Subcommand;

use self::supervisor::{Supervisor, SupervisorCall};
use super::{
    error::{CommandError, Exit},
    print::{self, show_controls},
};
use crate::{
    assemble::App,
    bus::pid_file,
    config::{Environment, Home},
};

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the service file, then enable and start the service.
    Install,
    /// Stop and disable the service, and remove its file.
    Uninstall,
    /// Show whether the service is installed and running; exit 0 if it runs, else 69.
    Status,
}

/// The values of the service file for this home.
#[derive(Debug)]
struct ServicePlan {
    program: PathBuf,
    home: PathBuf,
    /// The configuration file, if it is not the one in the home.
    config: Option<PathBuf>,
    /// The program search path for the agents and the programs that they start.
    path: String,
}

impl ServicePlan {
    fn new(environment: &Environment, config: Option<&Path>) -> Result<Self, CommandError> {
        let home = Home::from_environment(environment)?;
        let config = config.map(std::path::absolute).transpose();
        let plan = Self {
            program: crate::program::invoked_program(environment)?,
            home: home.dir().to_path_buf(),
            config: config.map_err(CommandError::internal)?,
            path: environment
                .non_empty("PATH")
                .map_or_else(String::new, |path| path.to_string_lossy().into_owned()),
        };
        plan.check()?;
        Ok(plan)
    }

    /// Checks that all texts can be written to a service file: it consists of lines, and launchd's
    /// XML allows no control characters.
    fn check(&self) -> Result<(), CommandError> {
        let path = Path::new(&self.path);
        let texts = [Some(&*self.program), Some(&*self.home), self.config.as_deref(), Some(path)];
        for path in texts.into_iter().flatten() {
            if path.to_str().is_none_or(|text| text.chars().any(char::is_control)) {
                let text = path.to_string_lossy();
                let shown = show_controls(&text);
                let message = format!("{shown} cannot be written to a service file");
                return Err(
                    CommandError::usage(message).with_hint("use a path of plain characters")
                );
            }
        }
        Ok(())
    }

    /// Returns the command line that runs the daemon.
    fn serve_command(&self) -> Vec<String> {
        self.command("serve")
    }

    fn command(&self, name: &str) -> Vec<String> {
        let mut words = vec![self.program.display().to_string(), name.to_owned()];
        if let Some(config) = &self.config {
            words.extend(["--config".to_owned(), config.display().to_string()]);
        }
        words
    }
}

pub(crate) fn run(
    environment: &Environment,
    config: Option<&Path>,
    command: ServiceCommand,
) -> Result<Exit, CommandError> {
    let plan = ServicePlan::new(environment, config)?;
    let supervisor = Supervisor::of_this_system(environment)?;
    match command {
        ServiceCommand::Install => install(&supervisor, &plan, environment),
        ServiceCommand::Uninstall => uninstall(&supervisor, environment),
        ServiceCommand::Status => status(&supervisor, environment),
    }
}

fn install(
    supervisor: &Supervisor,
    plan: &ServicePlan,
    environment: &Environment,
) -> Result<Exit, CommandError> {
    // Do not install a service that cannot start.
    let app = App::load(environment.clone(), plan.config.as_deref(), &[])?;
    if let Some(pid) = pid_file::holder(&app.home.pid_file())
        && supervisor.call(environment, SupervisorCall::Check).is_err()
    {
        let message = format!("angelia already runs outside the service (process {pid})");
        return Err(CommandError::new(Exit::TryLater, message)
            .with_hint("run `angelia stop`, then install the service"));
    }
    supervisor.write(&supervisor.file_text(plan))?;
    print::line(&format!("wrote {}", supervisor.file.display()))?;
    if let Some(note) = supervisor.note() {
        print::note(note);
    }
    match supervisor.call(environment, SupervisorCall::Enable) {
        Ok(()) => print::line("the service is enabled and running; `angelia service status`"),
        Err(problem) => {
            print::note(&format!(
                "angelia: the service could not be started: {problem}\n  hint: run this where your \
                 login session is: {}",
                supervisor.commands(SupervisorCall::Enable)
            ));
            Ok(Exit::Unavailable)
        }
    }
}

fn uninstall(supervisor: &Supervisor, environment: &Environment) -> Result<Exit, CommandError> {
    if !supervisor.file.exists() {
        return print::line("the service is not installed");
    }
    if let Err(problem) = supervisor.call(environment, SupervisorCall::Disable) {
        print::note(&format!(
            "angelia: the service could not be stopped: {problem}\n  hint: `angelia stop` stops a \
             daemon that still runs"
        ));
    }
    supervisor.remove()?;
    // The file is already gone; the supervisor notices that at the next login at the latest.
    let _noticed = supervisor.call(environment, SupervisorCall::Reload);
    print::line(&format!("removed {}", supervisor.file.display()))
}

fn status(supervisor: &Supervisor, environment: &Environment) -> Result<Exit, CommandError> {
    if !supervisor.file.exists() {
        print::line("the service is not installed; `angelia service install` installs it")?;
        return Ok(Exit::Unavailable);
    }
    print::line(&format!("installed: {}", supervisor.file.display()))?;
    match supervisor.call(environment, SupervisorCall::Check) {
        Ok(()) => print::line("running: yes"),
        Err(problem) => {
            print::line(&format!("running: no ({problem})"))?;
            Ok(Exit::Unavailable)
        }
    }
}
