//! The bus endpoint that this process hosts, with its rules and hooks, and the schedules that it
//! runs.

#[cfg(test)]
mod tests;

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_backends::file_times::RealFileTimes;
use angelia_core::{
    engine::rules::ColourMode,
    model::{EndpointName, bus::BusMessage},
    ports::{
        Bus, CommandRunner,
        bus::{AttachRequest, Claimant, InboxError, NameConflictPolicy},
    },
    task::TaskGroup,
};
use angelia_frontends::{
    bus_context::{EndpointHost, EndpointHostParts, LaneLimits},
    bus_rules::{
        EndpointHints, HookList, Hooks, Launcher, LauncherLimits, LiveRules, RuleRunner, Screen,
        check_trusted, rules_paths,
    },
    chat::DeliveryQueue,
    schedules::{ResultDelivery, Scheduler, SchedulerParts},
};
use jiff::tz::TimeZone;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{
    assemble::{App, LocalEngine},
    cli::print::{self, show_controls},
    clock::SystemClock,
    config::{DEFAULT_ENDPOINT, Environment},
    delegation::BusProfiles,
};

/// The variable that names a process's endpoint on the bus.
pub(crate) const ENDPOINT_VARIABLE: &str = "HERMES_BUS_ENDPOINT";

/// Delay before reclaiming a lost endpoint name.
const RECLAIM_DELAY: Duration = Duration::from_secs(5);

/// Where notices about the bus itself go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeTarget {
    /// The daemon's log.
    Log,
    /// The terminal of a command, whose log contains only errors.
    Stderr,
}

/// Prints lines for people to standard output, where they watch `serve` and `bus listen`.
#[derive(Debug)]
pub(crate) struct TerminalScreen {
    ink: ColourMode,
    notices: NoticeTarget,
    /// The error if a line could not be printed.
    error: Mutex<Option<io::Error>>,
}

impl TerminalScreen {
    pub(crate) fn new(environment: &Environment, notices: NoticeTarget) -> Self {
        let coloured =
            std::io::stdout().is_terminal() && environment.non_empty("NO_COLOR").is_none();
        Self {
            ink: if coloured { ColourMode::Colour } else { ColourMode::Plain },
            notices,
            error: Mutex::default(),
        }
    }

    pub(crate) fn print_line(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Prints a message unchanged.
    pub(crate) fn show_message(&self, message: &str) {
        if std::io::stdout().is_terminal() {
            self.print_line(&show_controls(message));
        } else {
            self.print_line(message);
        }
    }

    /// Returns the error if a line could not be printed.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Screen for TerminalScreen {
    fn ink(&self) -> ColourMode {
        self.ink
    }

    fn has_headings(&self) -> bool {
        std::io::stdout().is_terminal()
    }

    fn show(&self, line: &str) {
        self.print_line(line);
    }

    fn show_notice(&self, line: &str) {
        match self.notices {
            NoticeTarget::Log => tracing::warn!("{line}"),
            NoticeTarget::Stderr => print::note(line),
        }
    }
}

/// Builds the rule runner, which applies the rules to messages that arrive at this process.
pub(crate) fn build_rule_runner(
    environment: &Environment,
    home: PathBuf,
    commands: Arc<dyn CommandRunner>,
    screen: Arc<dyn Screen>,
    tasks: &TaskGroup,
) -> RuleRunner {
    let paths = rules_paths(home, environment.hermes_home());
    let limits = LauncherLimits::default();
    RuleRunner {
        rules: Arc::new(LiveRules::new(paths)),
        launcher: Launcher::new(Arc::clone(&commands), limits, tasks.clone()),
        commands,
        screen,
        clock: Arc::new(SystemClock),
        zone: TimeZone::system(),
    }
}

/// Returns the endpoint as which this process sends results.
pub(crate) fn sender_endpoint(app: &App) -> Option<EndpointName> {
    let home = app.home.dir().to_owned();
    let rules = LiveRules::new(rules_paths(home, app.environment.hermes_home()));
    let named = endpoint_name(&app.environment, app.config.named_endpoint(), &rules, true);
    named.or_else(|| EndpointName::new(DEFAULT_ENDPOINT).ok())
}

/// Starts running the schedules of this home.
pub(crate) fn spawn_scheduler(
    app: &App,
    local: &LocalEngine,
    bus: Option<Arc<dyn Bus>>,
    delivery_queue: DeliveryQueue,
    tasks: &TaskGroup,
) {
    let Some(from) = sender_endpoint(app) else { return };
    Scheduler::spawn(SchedulerParts {
        engine: local.engine.clone(),
        profiles: Arc::clone(&local.profiles) as _,
        results: ResultDelivery { delivery_queue, bus, from },
        file_times: Arc::new(RealFileTimes::new(app.home.dir())),
        tasks: tasks.clone(),
    });
}

/// Returns the name of this process's endpoint. `configured` is the one set in the configuration.
pub(crate) fn endpoint_name(
    environment: &Environment,
    configured: Option<&str>,
    rules: &LiveRules,
    gateway: bool,
) -> Option<EndpointName> {
    let text = |name: &str| environment.non_empty(name).and_then(|value| value.to_str());
    let profiles = environment.home().map(|home| home.join(".hermes/profiles"));
    let home = environment.non_empty("HERMES_HOME").map(PathBuf::from);
    let profile = match (&home, &profiles) {
        (Some(home), Some(profiles)) if home.starts_with(profiles) && home != profiles => {
            home.file_name().and_then(|name| name.to_str())
        }
        _ => None,
    };
    let rules_path = rules.path();
    let rules = rules.without_reports();
    let hints = EndpointHints {
        variable: text(ENDPOINT_VARIABLE),
        configured,
        rules: rules.endpoint.as_deref(),
        has_hermes_rules: rules_path
            .is_some_and(|path| path.parent().map(Path::to_owned) == environment.hermes_home()),
        profile,
        default: DEFAULT_ENDPOINT,
        gateway,
    };
    hints.name()
}

/// Hosts this daemon's own endpoint on its bus until the tasks stop.
pub(crate) fn host_endpoint(
    app: &App,
    local: &LocalEngine,
    bus: &Arc<dyn Bus>,
    delivery_queue: DeliveryQueue,
    tasks: &TaskGroup,
) {
    let screen = Arc::new(TerminalScreen::new(&app.environment, NoticeTarget::Log));
    let home = app.home.dir().to_owned();
    let commands = Arc::clone(&local.commands);
    let rule_runner = build_rule_runner(&app.environment, home, commands, screen, tasks);
    // Report a broken file now, and not only when the first message arrives.
    rule_runner.current_rules();
    let Some(name) =
        endpoint_name(&app.environment, app.config.named_endpoint(), &rule_runner.rules, true)
    else {
        return;
    };
    let profiles = BusProfiles::new(app, Arc::clone(&local.profiles));
    let called = profiles.endpoint();
    let host = EndpointHost::new(EndpointHostParts {
        engine: local.engine.clone(),
        profiles: Arc::new(profiles),
        bus: Arc::clone(bus),
        delivery_queue,
        rule_runner,
        lane_limits: LaneLimits::default(),
        tasks: tasks.clone(),
        caller_cwd: None,
    });
    tasks.spawn_until_stopped(receive_messages(Arc::clone(bus), host, name, called));
}

/// Receives messages under a name, and reclaims the name if it is lost.
async fn receive_messages(
    bus: Arc<dyn Bus>,
    host: EndpointHost,
    name: EndpointName,
    called: Arc<Mutex<Option<EndpointName>>>,
) {
    loop {
        let claim = AttachRequest {
            on_conflict: NameConflictPolicy::Displace,
            durable: true,
            claimant: Claimant::Host,
            ..AttachRequest::new(name.clone())
        };
        match bus.attach(claim).await {
            Ok(mut inbox) => {
                tracing::info!("listening on the bus as {}", inbox.endpoint());
                *called.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(inbox.endpoint().clone());
                match host.serve(inbox.as_mut()).await {
                    InboxError::Bus(_closed) => return,
                    InboxError::Displaced(name) => {
                        tracing::warn!("another process has taken over the name {name}");
                    }
                }
            }
            Err(error) => tracing::warn!("cannot listen on the bus as {name}: {error}"),
        }
        tokio::time::sleep(RECLAIM_DELAY).await;
    }
}

/// Starts passing every message to the owner's hooks, if there are any.
pub(crate) fn spawn_hooks(
    environment: &Environment,
    commands: Arc<dyn CommandRunner>,
    heard: &broadcast::Sender<BusMessage>,
    tasks: &TaskGroup,
) {
    let list = load_hook_list(environment);
    let launcher = Launcher::new(Arc::clone(&commands), LauncherLimits::default(), tasks.clone());
    let hooks = Hooks::new(list, launcher);
    if hooks.is_empty() {
        return;
    }
    let mut heard = heard.subscribe();
    tasks.spawn_until_stopped(async move {
        loop {
            match heard.recv().await {
                Ok(message) => hooks.run(commands.as_ref(), &message.envelope),
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!("the hooks did not see {missed} messages: too many at once");
                }
                Err(RecvError::Closed) => return,
            }
        }
    });
}

fn load_hook_list(environment: &Environment) -> HookList {
    let mut list = match environment.non_empty("HERMES_BUS_HOOKS") {
        Some(said) => HookList::from_variable(&said.to_string_lossy()),
        None => read_hook_file(environment).unwrap_or_default(),
    };
    list.0.retain(|hook| {
        let path = match (hook.strip_prefix("~/"), environment.home()) {
            (Some(below), Some(home)) => home.join(below),
            _ => PathBuf::from(&**hook),
        };
        // A hook that does not exist is reported when it is about to run.
        !path.exists() || is_trusted(&path)
    });
    list
}

fn read_hook_file(environment: &Environment) -> Option<HookList> {
    let path = environment.hermes_home()?.join("hermes-bus/hooks.yaml");
    let text = fs::read_to_string(&path).ok()?;
    is_trusted(&path).then(|| HookList::from_file(&text))
}

/// Returns whether only the owner can write a file that names or is a hook. Warns if that is not
/// the case.
fn is_trusted(path: &Path) -> bool {
    match check_trusted(path) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!("a hook is not used: {error}");
            false
        }
    }
}
